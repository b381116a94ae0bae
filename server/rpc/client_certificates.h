// SPDX-License-Identifier: Apache-2.0
// Checks whether a client's certificate is still valid after its handshake: it may have expired, or
// the authority have been replaced, while the connection stayed open.
#pragma once

#include <openssl/x509.h>

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace tune::server {

// Thread-safe.
class ClientCertificates {
 public:
  // The certificates of the authority, as PEM. Empty: none is valid.
  void SetAuthority(const std::string& pem);
  // `leaf` and `chain` are PEM, as gRPC reports them for a connection; the chain may be empty.
  // UNAUTHENTICATED, with the reason.
  absl::Status Check(const std::string& leaf, const std::string& chain) const;

 private:
  // A certificate's verification, which holds until `until`.
  struct Finding {
    absl::Status status;
    absl::Time until;
  };
  Finding Verify(X509_STORE* authority, const std::string& leaf, const std::string& chain) const;

  mutable Mutex mutex_;
  std::shared_ptr<X509_STORE> authority_ ABSL_GUARDED_BY(mutex_);
  mutable std::map<std::string, Finding> findings_ ABSL_GUARDED_BY(mutex_);  // by leaf
};

}  // namespace tune::server
