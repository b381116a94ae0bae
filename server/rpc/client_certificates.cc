// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/client_certificates.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/rpc/error_detail.h"
#include "server/rpc/pem.h"

namespace tune::server {
namespace {

constexpr size_t kFindingsMax = 1024;
// An intermediate certificate may end before the client's own does.
constexpr absl::Duration kFindingHolds = absl::Minutes(1);

using Stack = std::unique_ptr<STACK_OF(X509), void (*)(STACK_OF(X509)*)>;
using Context = std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)>;

Stack ToStack(const std::vector<Certificate>& certificates) {
  Stack stack(sk_X509_new_null(), [](STACK_OF(X509) * made) { sk_X509_free(made); });
  for (const Certificate& one : certificates) sk_X509_push(stack.get(), one.get());
  return stack;
}

absl::Status NotTaken(const std::string& why) {
  return WithReason(absl::UnauthenticatedError(
                        absl::StrCat("the client's certificate is not taken any more: ", why)),
                    v1::ERROR_REASON_NOT_KNOWN);
}

}  // namespace

void ClientCertificates::SetAuthority(const std::string& pem) {
  std::shared_ptr<X509_STORE> store(X509_STORE_new(), X509_STORE_free);
  for (const Certificate& one : ParseCertificates(pem)) {
    X509_STORE_add_cert(store.get(), one.get());
  }
  // Uses the flags with which gRPC verifies in the handshake.
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
  MutexLock lock(mutex_);
  authority_ = std::move(store);
  findings_.clear();
}

absl::Status ClientCertificates::Check(const std::string& leaf, const std::string& chain) const {
  std::shared_ptr<X509_STORE> authority;
  {
    MutexLock lock(mutex_);
    const auto found = findings_.find(leaf);
    if (found != findings_.end() && absl::Now() < found->second.until) {
      return found->second.status;
    }
    authority = authority_;
  }
  if (authority == nullptr) return NotTaken("the daemon has no --tls-ca");
  const Finding finding = Verify(authority.get(), leaf, chain);
  MutexLock lock(mutex_);
  if (authority != authority_) return finding.status;
  if (findings_.size() >= kFindingsMax) findings_.clear();
  findings_.insert_or_assign(leaf, finding);
  return finding.status;
}

ClientCertificates::Finding ClientCertificates::Verify(X509_STORE* authority,
                                                       const std::string& leaf,
                                                       const std::string& chain) const {
  const absl::Time now = absl::Now();
  const Certificate certificate = ParseCertificate(leaf);
  if (certificate == nullptr) return {NotTaken("it does not parse"), now + kFindingHolds};
  const std::vector<Certificate> others = ParseCertificates(chain);
  const Stack untrusted = ToStack(others);
  const Context context(X509_STORE_CTX_new(), X509_STORE_CTX_free);
  X509_STORE_CTX_init(context.get(), authority, certificate.get(), untrusted.get());
  X509_STORE_CTX_set_default(context.get(), "ssl_client");
  ERR_set_mark();
  const bool valid = X509_verify_cert(context.get()) == 1;
  ERR_pop_to_mark();
  if (!valid) {
    return {NotTaken(X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()))),
            now + kFindingHolds};
  }
  return {absl::OkStatus(), std::min(now + kFindingHolds, EndOf(*certificate))};
}

}  // namespace tune::server
