// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/certificate_files.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/rpc/session_tickets.h"
#include "server/state/paths.h"
#include "tuner/contained.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr std::chrono::seconds kLookAgain(1);
constexpr unsigned kReadAgainSeconds = 1;
constexpr size_t kFileBytesMax = 4 << 20;

// What gRPC reads.
constexpr char kCurrent[] = "/current";
constexpr char kKey[] = "/key.pem";
constexpr char kCertificate[] = "/certificate.pem";
constexpr char kAuthority[] = "/authority.pem";

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()) || text.view().size() > kFileBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", path));
  }
  return std::move(text).str();
}

absl::Status WriteWhole(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  if (file << text && file.flush()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path));
}

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

Bio Open(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
}
int NoPassword(char*, int, int, void*) { return 0; }

Certificate ParseCertificate(const std::string& text) {
  return Certificate(PEM_read_bio_X509(Open(text).get(), nullptr, NoPassword, nullptr), X509_free);
}

// When the certificate ends. INVALID_ARGUMENT: one does not parse, or they are no pair.
absl::StatusOr<absl::Time> CheckPair(const TlsOptions& files, const std::string& certificate_text,
                                     const std::string& key_text) {
  const Certificate certificate = ParseCertificate(certificate_text);
  if (certificate == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.certificate_file, " is no certificate in PEM"));
  }
  const Key key(PEM_read_bio_PrivateKey(Open(key_text).get(), nullptr, NoPassword, nullptr),
                EVP_PKEY_free);
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.key_file, " is no private key in PEM without a password"));
  }
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        files.key_file, " is not the key of the certificate in ", files.certificate_file));
  }
  tm end = {};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.certificate_file, " does not say when it ends"));
  }
  return absl::FromTM(end, absl::UTCTimeZone());
}

absl::Status CheckEnd(const TlsOptions& files, absl::Time end) {
  if (end > absl::Now()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the certificate in ", files.certificate_file, " ended on ",
                   absl::FormatTime("%Y-%m-%d", end, absl::UTCTimeZone())));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CertificateFiles>> CertificateFiles::Open(
    const TlsOptions& options, const std::string& folder) {
  if (const absl::Status none = SendNoSessionTickets(); !none.ok()) {
    spdlog::warn("TLS handshakes take longer: {}", none.ToString());
  }
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  RETURN_IF_ERROR(MakePrivateDir(folder));
  std::unique_ptr<CertificateFiles> files(new CertificateFiles(options, folder));
  ASSIGN_OR_RETURN(files->seen_, files->Read());
  ASSIGN_OR_RETURN(const absl::Time end,
                   CheckPair(options, files->seen_.certificate, files->seen_.key));
  RETURN_IF_ERROR(files->Serve(files->seen_));
  // One that has ended is still served: a client that checks no dates may work on.
  const absl::Status ended = CheckEnd(options, end);
  if (!ended.ok()) spdlog::error("{}", ended.ToString());
  {
    std::lock_guard lock(files->mutex_);
    files->state_ = {absl::ToUnixMillis(end), std::string(ended.message())};
  }
  files->thread_ = std::thread([raw = files.get()] { raw->Watch(); });
  return files;
}

CertificateFiles::~CertificateFiles() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

absl::StatusOr<CertificateFiles::Texts> CertificateFiles::Read() const {
  Texts texts;
  ASSIGN_OR_RETURN(texts.certificate, ReadWhole(options_.certificate_file));
  ASSIGN_OR_RETURN(texts.key, ReadWhole(options_.key_file));
  if (options_.client_authority_file.empty()) return texts;
  ASSIGN_OR_RETURN(texts.authority, ReadWhole(options_.client_authority_file));
  if (ParseCertificate(texts.authority) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(options_.client_authority_file, " is no certificate in PEM"));
  }
  return texts;
}

absl::Status CertificateFiles::Serve(const Texts& texts) {
  const std::string name = absl::StrCat(++served_);
  const std::string made = absl::StrCat(folder_, "/", name);
  RETURN_IF_ERROR(MakePrivateDir(made));
  RETURN_IF_ERROR(WriteWhole(made + kKey, texts.key));
  RETURN_IF_ERROR(WriteWhole(made + kCertificate, texts.certificate));
  if (!texts.authority.empty()) RETURN_IF_ERROR(WriteWhole(made + kAuthority, texts.authority));
  const std::string link = folder_ + "/next";
  std::error_code error;
  std::filesystem::remove(link, error);
  std::filesystem::create_directory_symlink(name, link, error);
  if (!error) std::filesystem::rename(link, folder_ + kCurrent, error);
  if (error) return absl::UnavailableError(absl::StrCat(folder_, ": ", error.message()));
  std::filesystem::remove_all(absl::StrCat(folder_, "/", served_ - 2), error);
  return absl::OkStatus();
}

std::shared_ptr<grpc::ServerCredentials> CertificateFiles::Credentials() const {
  using grpc::experimental::FileWatcherCertificateProvider;
  const std::string folder = folder_ + kCurrent;
  const bool has_authority = !options_.client_authority_file.empty();
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(folder + kKey, folder + kCertificate,
                                                       has_authority ? folder + kAuthority : "",
                                                       kReadAgainSeconds));
  options.watch_identity_key_cert_pairs();
  if (has_authority) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

CertificateFiles::State CertificateFiles::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

void CertificateFiles::Watch() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLookAgain, [this] { return stopping_; })) {
    lock.unlock();
    const absl::Status looked = Contained([this] { LookAgain(); });
    if (!looked.ok()) spdlog::error("certificates are not looked at: {}", looked.ToString());
    lock.lock();
  }
}

void CertificateFiles::LookAgain() {
  absl::StatusOr<Texts> texts = Read();
  if (texts.ok() && *texts == seen_) {
    return;
  }
  absl::Status status = texts.status();
  absl::Time end;
  if (status.ok()) {
    seen_ = *texts;
    const absl::StatusOr<absl::Time> checked = CheckPair(options_, texts->certificate, texts->key);
    status = checked.ok() ? CheckEnd(options_, *checked) : checked.status();
    end = checked.value_or(absl::Time());
    if (status.ok()) status = Serve(*texts);
  }
  std::lock_guard lock(mutex_);
  const std::string problem(status.message());
  if (status.ok()) {
    spdlog::info("the certificate in {} is served from now on", options_.certificate_file);
    state_.expires_unix_ms = absl::ToUnixMillis(end);
  } else if (problem != state_.problem) {
    spdlog::error("the certificate of before is still served: {}", problem);
  }
  state_.problem = problem;
}

}  // namespace tune::server
