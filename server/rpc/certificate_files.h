// SPDX-License-Identifier: Apache-2.0
// The certificate, key and authority of the TCP listeners. The files are checked each second, and
// new ones are served once they parse, fit and are valid; until then the earlier ones are. gRPC
// gets them from memory at each handshake, so that no file has to be opened for it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "grpcpp/security/server_credentials.h"
#include "server/rpc/client_certificates.h"
#include "server/rpc/tls_options.h"

namespace tune::server {

class CertificateFiles {
 public:
  struct State {
    int64_t expires_unix_ms = 0;  // of what is served
    std::string problem;          // why the files as they are now are not served
  };
  // The files' texts; the authority may be empty.
  struct Texts {
    std::string certificate;
    std::string key;
    std::string authority;
    bool operator==(const Texts&) const = default;
  };

  // INVALID_ARGUMENT if a file cannot be read, or the key is not the certificate's.
  // PERMISSION_DENIED if others may read the key.
  static absl::StatusOr<std::unique_ptr<CertificateFiles>> Open(const TlsOptions& options);
  ~CertificateFiles();

  // Clients are asked for a certificate if there is an authority, but may have none. `this` must
  // outlive the server.
  std::shared_ptr<grpc::ServerCredentials> Credentials() const;
  // Checks the files now.
  void LookAgain();
  State state() const;
  // The texts that are served, and a number that differs for each version of them.
  std::pair<uint64_t, Texts> Served() const;
  const std::string& file() const { return options_.certificate_file; }
  bool has_authority() const { return !options_.client_authority_file.empty(); }
  const ClientCertificates& clients() const { return clients_; }

 private:
  explicit CertificateFiles(const TlsOptions& options) : options_(options) {}
  absl::StatusOr<Texts> Read() const;
  void Serve(const Texts& texts, absl::Time end);
  void Watch();

  const TlsOptions options_;
  ClientCertificates clients_;
  Mutex look_mutex_;  // one look at a time
  mutable Mutex mutex_;
  std::condition_variable changed_;
  Texts served_ ABSL_GUARDED_BY(mutex_);
  uint64_t served_number_ ABSL_GUARDED_BY(mutex_) = 0;
  State state_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tune::server
