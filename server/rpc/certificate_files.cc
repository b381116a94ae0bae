// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/certificate_files.h"

#include <grpc/grpc_security.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/contained.h"
#include "base/secret_file.h"
#include "base/status_macros.h"
#include "server/rpc/pem.h"

namespace tune::server {
namespace {

constexpr std::chrono::seconds kLookAgain(1);
constexpr size_t kFileBytesMax = 4 << 20;

// PERMISSION_DENIED: others may use it. A file of root that a group may read was given to the
// group, unless the daemon runs as root: then it is its own.
absl::StatusOr<std::string> ReadKey(const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadSecret(path));
  struct stat file = {};
  const bool own = stat(path.c_str(), &file) == 0 && file.st_uid == geteuid();
  if (!own || (file.st_mode & S_IRWXG) == 0) return text;
  return absl::PermissionDeniedError(absl::StrCat("'", path, "' holds a secret and ",
                                                  ModeLets(file.st_mode, S_IRWXG),
                                                  ", so it is not used: chmod 600 ", path));
}

std::string MinuteText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", time, absl::UTCTimeZone());
}

// When the certificate ends. INVALID_ARGUMENT: one does not parse, or they are no pair.
absl::StatusOr<absl::Time> CheckPair(const TlsOptions& files,
                                     const CertificateFiles::Texts& texts) {
  const Certificate certificate = ParseCertificate(texts.certificate);
  if (certificate == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.certificate_file, " is no certificate in PEM"));
  }
  const Key key = ParseKey(texts.key);
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.key_file, " is no private key in PEM without a password"));
  }
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        files.key_file, " is not the key of the certificate in ", files.certificate_file));
  }
  return EndOf(*certificate);
}

absl::Status CheckTimes(const TlsOptions& files, const CertificateFiles::Texts& texts) {
  const Certificate certificate = ParseCertificate(texts.certificate);
  const absl::Time now = absl::Now();
  if (BeginOf(*certificate) > now) {
    return absl::InvalidArgumentError(absl::StrCat("the certificate in ", files.certificate_file,
                                                   " is not valid before ",
                                                   MinuteText(BeginOf(*certificate))));
  }
  if (EndOf(*certificate) > now) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the certificate in ", files.certificate_file,
                                                 " ended on ", MinuteText(EndOf(*certificate))));
}

// Answers gRPC's request for the certificate at each handshake of one server.
struct Fetcher {
  const CertificateFiles* files;
  uint64_t given = 0;

  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    auto& fetcher = *static_cast<Fetcher*>(self);
    const auto [number, texts] = fetcher.files->Served();
    if (number == fetcher.given) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair{.private_key = texts.key.c_str(),
                                          .cert_chain = texts.certificate.c_str()};
    // gRPC insists on an authority, also where it asks clients for no certificate.
    const std::string& authority = texts.authority.empty() ? texts.certificate : texts.authority;
    *config = grpc_ssl_server_certificate_config_create(authority.c_str(), &pair, 1);
    fetcher.given = number;
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }
};

// gRPC's C++ interface has no credentials that are renewed from memory; its core has.
class FetchedCredentials : public grpc::ServerCredentials {
 public:
  FetchedCredentials(const CertificateFiles& files,
                     grpc_ssl_client_certificate_request_type request)
      : fetcher_{.files = &files},
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(request, Fetcher::Fetch,
                                                                            &fetcher_))) {}
  ~FetchedCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  Fetcher fetcher_;  // of one thread at a time: gRPC asks under a mutex
  grpc_server_credentials* const credentials_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CertificateFiles>> CertificateFiles::Open(
    const TlsOptions& options) {
  std::unique_ptr<CertificateFiles> files(new CertificateFiles(options));
  ASSIGN_OR_RETURN(const Texts texts, files->Read());
  ASSIGN_OR_RETURN(const absl::Time end, CheckPair(options, texts));
  files->Serve(texts, end);
  // An expired certificate is still served: a client that checks no dates may go on.
  if (const absl::Status invalid = CheckTimes(options, texts); !invalid.ok()) {
    spdlog::error("{}", invalid.ToString());
    MutexLock lock(files->mutex_);
    files->state_.problem = std::string(invalid.message());
  }
  files->thread_ = std::thread([raw = files.get()] { raw->Watch(); });
  return files;
}

CertificateFiles::~CertificateFiles() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<CertificateFiles::Texts> CertificateFiles::Read() const {
  Texts texts;
  ASSIGN_OR_RETURN(texts.certificate, ReadNamed(options_.certificate_file, kFileBytesMax));
  ASSIGN_OR_RETURN(texts.key, ReadKey(options_.key_file));
  if (!has_authority()) return texts;
  ASSIGN_OR_RETURN(texts.authority, ReadNamed(options_.client_authority_file, kFileBytesMax));
  if (ParseCertificate(texts.authority) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(options_.client_authority_file, " is no certificate in PEM"));
  }
  return texts;
}

void CertificateFiles::Serve(const Texts& texts, absl::Time end) {
  if (has_authority()) clients_.SetAuthority(texts.authority);
  MutexLock lock(mutex_);
  served_ = texts;
  ++served_number_;
  state_ = {.expires_unix_ms = absl::ToUnixMillis(end), .problem = ""};
}

std::shared_ptr<grpc::ServerCredentials> CertificateFiles::Credentials() const {
  return std::make_shared<FetchedCredentials>(
      *this, has_authority() ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY
                             : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
}

CertificateFiles::State CertificateFiles::state() const {
  MutexLock lock(mutex_);
  return state_;
}

std::pair<uint64_t, CertificateFiles::Texts> CertificateFiles::Served() const {
  MutexLock lock(mutex_);
  return {served_number_, served_};
}

void CertificateFiles::Watch() {
  MutexLock lock(mutex_);
  while (!changed_.wait_for(lock.native(), kLookAgain,
                            [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; })) {
    lock.Unlock();
    const absl::Status looked = Contained([this] { LookAgain(); });
    if (!looked.ok()) spdlog::error("certificates are not looked at: {}", looked.ToString());
    lock.Lock();
  }
}

// Tries again files that failed the last time: a file may be back, a certificate be valid by now.
void CertificateFiles::LookAgain() {
  MutexLock look(look_mutex_);
  const absl::StatusOr<Texts> texts = Read();
  absl::Status status = texts.status();
  if (status.ok() && *texts != Served().second) {
    const absl::StatusOr<absl::Time> end = CheckPair(options_, *texts);
    status = end.ok() ? CheckTimes(options_, *texts) : end.status();
    if (status.ok()) {
      Serve(*texts, *end);
      spdlog::info("the certificate in {} is served from now on", options_.certificate_file);
      return;
    }
  } else if (status.ok()) {
    status = CheckTimes(options_, *texts);
  }
  MutexLock lock(mutex_);
  const std::string problem(status.message());
  if (problem == state_.problem) return;
  state_.problem = problem;
  if (status.ok()) {
    spdlog::info("the certificate in {} is served as before", options_.certificate_file);
  } else {
    spdlog::error("the certificate of before is still served: {}", problem);
  }
}

}  // namespace tune::server
