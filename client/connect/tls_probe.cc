// SPDX-License-Identifier: Apache-2.0
#include "client/connect/tls_probe.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/address.h"
#include "base/descriptor.h"
#include "base/status_macros.h"

namespace tune::client {
namespace {

using Time = std::chrono::steady_clock::time_point;
using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using Session = std::unique_ptr<SSL, decltype(&SSL_free)>;

constexpr char kCaFlag[] = "--tls-ca or TUNE_TLS_CA";
constexpr char kCertificateFlag[] = "--tls-cert or TUNE_TLS_CERT";
constexpr char kKeyFlag[] = "--tls-key or TUNE_TLS_KEY";
constexpr unsigned char kProtocol[] = {2, 'h', '2'};  // what gRPC speaks, as ALPN names it
constexpr size_t kNamesMax = 5;

int NoPassword(char*, int, int, void*) { return 0; }

std::vector<Certificate> CertificatesOf(const std::string& text) {
  const Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
  std::vector<Certificate> all;
  while (X509* one = PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr)) {
    all.emplace_back(one, X509_free);
  }
  ERR_clear_error();  // the end of the text is an error, too
  return all;
}

Key KeyOf(const std::string& text) {
  const Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr), EVP_PKEY_free);
  ERR_clear_error();
  return key;
}

// Waits until the socket can be read or written; false: not in time.
bool Await(int fd, short events, Time ends_at) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(ends_at - std::chrono::steady_clock::now());
  pollfd one = {fd, events, 0};
  return poll(&one, 1, static_cast<int>(std::max<int64_t>(left.count(), 0))) > 0;
}

absl::StatusOr<Descriptor> ConnectTo(const HostPort& place, Time ends_at) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(place.host.c_str(), place.port.c_str(), &hints, &found);
  if (error != 0) return absl::UnavailableError(gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  std::string why;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Descriptor fd(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.ok()) continue;
    if (connect(fd.get(), one->ai_addr, one->ai_addrlen) == 0) return fd;
    int failed = errno;
    if (failed == EINPROGRESS) {
      socklen_t size = sizeof(failed);
      failed = ETIMEDOUT;
      if (Await(fd.get(), POLLOUT, ends_at)) {
        getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failed, &size);
      }
    }
    if (failed == 0) return fd;
    why = std::strerror(failed);
  }
  return absl::UnavailableError(why);
}

Context ContextOf(const TlsTexts& texts) {
  Context context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  if (context == nullptr) return context;
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_alpn_protos(context.get(), kProtocol, sizeof(kProtocol));
  // The certificate is verified afterwards: a failed verification here would drop it.
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  if (texts.ca.empty()) SSL_CTX_set_default_verify_paths(context.get());
  for (const Certificate& one : CertificatesOf(texts.ca)) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), one.get());
  }
  if (!texts.certificate.empty()) {
    const std::vector<Certificate> chain = CertificatesOf(texts.certificate);
    SSL_CTX_use_certificate(context.get(), chain.front().get());
    for (size_t i = 1; i < chain.size(); ++i) {
      SSL_CTX_add1_chain_cert(context.get(), chain[i].get());
    }
    SSL_CTX_use_PrivateKey(context.get(), KeyOf(texts.key).get());
  }
  return context;
}

// Its texts go through memory: a write to a socket that was closed would be a signal.
Session SessionOf(const Context& context, const std::string& host) {
  Session session(SSL_new(context.get()), SSL_free);
  if (session == nullptr) return session;
  SSL_set_bio(session.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session.get()), host.c_str()) != 1) {
    SSL_set1_host(session.get(), host.c_str());
    SSL_set_tlsext_host_name(session.get(), host.c_str());
  }
  SSL_set_connect_state(session.get());
  ERR_clear_error();
  return session;
}

bool SendAll(SSL* session, int fd, Time ends_at) {
  std::array<char, 16384> buffer;
  for (int count; (count = BIO_read(SSL_get_wbio(session), buffer.data(), buffer.size())) > 0;) {
    for (int sent = 0; sent < count;) {
      const ssize_t some =
          send(fd, buffer.data() + sent, static_cast<size_t>(count - sent), MSG_NOSIGNAL);
      if (some < 0 && (errno != EAGAIN || !Await(fd, POLLOUT, ends_at))) return false;
      sent += static_cast<int>(std::max<ssize_t>(some, 0));
    }
  }
  return true;
}

enum class Ended { kDone, kRefused, kClosed, kSilent };

// kDone: there is more to read.
Ended Receive(SSL* session, int fd, Time ends_at) {
  std::array<char, 16384> buffer;
  if (!Await(fd, POLLIN, ends_at)) return Ended::kSilent;
  const ssize_t count = recv(fd, buffer.data(), buffer.size(), 0);
  if (count <= 0) return Ended::kClosed;
  BIO_write(SSL_get_rbio(session), buffer.data(), static_cast<int>(count));
  return Ended::kDone;
}

// `step` until it wants no more of the other side.
template <typename Step>
Ended Exchange(SSL* session, int fd, Time ends_at, Step step) {
  while (true) {
    const int result = step(session);
    const bool sent = SendAll(session, fd, ends_at);
    if (result > 0) return Ended::kDone;
    if (SSL_get_error(session, result) != SSL_ERROR_WANT_READ) return Ended::kRefused;
    if (!sent) return Ended::kSilent;
    if (const Ended received = Receive(session, fd, ends_at); received != Ended::kDone) {
      return received;
    }
  }
}

std::string DayOf(const ASN1_TIME* time) {
  tm fields = {};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return "an unknown day";
  const absl::TimeZone utc = absl::UTCTimeZone();
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::FromTM(fields, utc), utc);
}

std::string TextOf(const GENERAL_NAME& name) {
  if (name.type == GEN_DNS) {
    const auto* text = ASN1_STRING_get0_data(name.d.dNSName);
    return {reinterpret_cast<const char*>(text),
            static_cast<size_t>(ASN1_STRING_length(name.d.dNSName))};
  }
  if (name.type != GEN_IPADD) return "";
  std::array<char, INET6_ADDRSTRLEN> text = {};
  const int family = ASN1_STRING_length(name.d.iPAddress) == 4 ? AF_INET : AF_INET6;
  inet_ntop(family, ASN1_STRING_get0_data(name.d.iPAddress), text.data(), text.size());
  return text.data();
}

// The hosts that a certificate is for.
std::string HostsOf(X509* certificate) {
  const std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> names(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)),
      GENERAL_NAMES_free);
  std::vector<std::string> hosts;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    std::string host = TextOf(*sk_GENERAL_NAME_value(names.get(), i));
    if (!host.empty() && hosts.size() < kNamesMax) hosts.push_back(std::move(host));
  }
  return hosts.empty() ? "no host" : absl::StrJoin(hosts, ", ");
}

// Why the daemon's certificate is not trusted; empty: it is.
std::string WhyNotTrusted(SSL* session, const std::string& host, bool has_ca) {
  X509* const certificate = SSL_get0_peer_certificate(session);
  const long result = SSL_get_verify_result(session);
  if (certificate == nullptr) return "the daemon shows no certificate";
  switch (result) {
    case X509_V_OK:
      return "";
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return absl::StrCat("the daemon's certificate ended on ",
                          DayOf(X509_get0_notAfter(certificate)), "; its operator renews it");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::StrCat("the daemon's certificate begins on ",
                          DayOf(X509_get0_notBefore(certificate)), "; is a clock wrong?");
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return absl::StrCat("the daemon's certificate is for ", HostsOf(certificate), ", not for ",
                          host, "; ask it by a name that it is for");
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return absl::StrCat("the daemon's certificate is of an authority that ",
                          has_ca ? "the file of " : "this system does not trust; name it with ",
                          kCaFlag, has_ca ? " does not have" : "");
    default:
      return absl::StrCat("the daemon's certificate is not taken: ",
                          X509_verify_cert_error_string(result));
  }
}

// Why the other side ended the handshake, by the library's last error.
std::string WhyRefused() {
  const unsigned long error = ERR_peek_last_error();
  const int reason = ERR_GET_REASON(error);
  if (reason > SSL_AD_REASON_OFFSET) {
    return absl::StrCat("the daemon does not take this client's certificate (", kCertificateFlag,
                        "): ", SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET));
  }
  if (reason == SSL_R_WRONG_VERSION_NUMBER) return "what listens there does not speak TLS";
  const char* text = ERR_reason_error_string(error);
  return absl::StrCat("the TLS handshake fails: ", text != nullptr ? text : "it was broken off");
}

// Why the other side hung up after the handshake without a word, as gRPC's servers do if they
// reject a certificate; empty: we sent none.
std::string WhyHungUp(SSL* session) {
  const X509* const certificate = SSL_get_certificate(session);
  if (certificate == nullptr) return "";
  const ASN1_TIME* const ends = X509_get0_notAfter(certificate);
  const std::string why =
      X509_cmp_current_time(ends) < 0
          ? absl::StrCat("it ended on ", DayOf(ends))
          : "the authority that the daemon was given (tunerd --tls-ca) has not signed it, or it "
            "is not valid now";
  return absl::StrCat("the daemon does not take this client's certificate (", kCertificateFlag,
                      "): ", why);
}

absl::Status Wrong(absl::string_view flag, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(flag, " ", what));
}

absl::Status Refused(absl::string_view why) { return absl::UnauthenticatedError(why); }

}  // namespace

absl::Status CheckTls(const TlsTexts& texts) {
  if (!texts.ca.empty() && CertificatesOf(texts.ca).empty()) {
    return Wrong(kCaFlag, "names a file without a certificate in PEM");
  }
  if (texts.certificate.empty() && texts.key.empty()) return absl::OkStatus();
  if (texts.certificate.empty()) {
    return Wrong(kKeyFlag, absl::StrCat("is given without its certificate: ", kCertificateFlag));
  }
  if (texts.key.empty()) {
    return Wrong(kCertificateFlag, absl::StrCat("is given without its key: ", kKeyFlag));
  }
  const std::vector<Certificate> chain = CertificatesOf(texts.certificate);
  if (chain.empty()) return Wrong(kCertificateFlag, "names a file without a certificate in PEM");
  const Key key = KeyOf(texts.key);
  if (key == nullptr) return Wrong(kKeyFlag, "is no private key in PEM without a password");
  if (X509_check_private_key(chain.front().get(), key.get()) == 1) return absl::OkStatus();
  ERR_clear_error();
  return Wrong(kKeyFlag, absl::StrCat("is not the key of the certificate of ", kCertificateFlag));
}

absl::Status ProbeTls(const std::string& address, const TlsTexts& texts,
                      std::chrono::milliseconds timeout) {
  RETURN_IF_ERROR(CheckTls(texts));
  const Time ends_at = std::chrono::steady_clock::now() + timeout;
  ASSIGN_OR_RETURN(const HostPort place, HostPortOf(address));
  ASSIGN_OR_RETURN(const Descriptor fd, ConnectTo(place, ends_at));
  const Context context = ContextOf(texts);
  if (context == nullptr) return absl::OkStatus();
  const Session session = SessionOf(context, place.host);
  if (session == nullptr) return absl::OkStatus();
  const Ended shaken = Exchange(session.get(), fd.get(), ends_at, SSL_do_handshake);
  if (shaken == Ended::kSilent || shaken == Ended::kClosed) {
    return Refused("what listens there does not go on with TLS");
  }
  if (shaken == Ended::kRefused) return Refused(WhyRefused());
  const std::string why = WhyNotTrusted(session.get(), place.host, !texts.ca.empty());
  if (!why.empty()) return Refused(why);
  // A daemon that does not take our certificate says so only now. Else it greets.
  const auto read = [](SSL* of) {
    char byte = 0;
    return SSL_read(of, &byte, 1);
  };
  const Ended greeted = Exchange(session.get(), fd.get(), ends_at, read);
  if (greeted == Ended::kRefused) return Refused(WhyRefused());
  const std::string hung_up = greeted == Ended::kClosed ? WhyHungUp(session.get()) : "";
  return hung_up.empty() ? absl::OkStatus() : Refused(hung_up);
}

}  // namespace tune::client
