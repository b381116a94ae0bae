// SPDX-License-Identifier: Apache-2.0
// The certificate, key and authority of a TCP listener, read again when their files change. Only a
// pair that fits is served: of one that is half written gRPC would fail every handshake.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"
#include "server/rpc/tls_options.h"

namespace tune::server {

class CertificateFiles {
 public:
  struct State {
    int64_t expires_unix_ms = 0;  // of what is served
    std::string problem;          // why the files as they are now are not served
  };

  // `folder` is for copies, and is emptied. INVALID_ARGUMENT: a file cannot be read, or the key is
  // not the certificate's.
  static absl::StatusOr<std::unique_ptr<CertificateFiles>> Open(const TlsOptions& options,
                                                                const std::string& folder);
  ~CertificateFiles();

  // Clients are asked for a certificate if there is an authority, and need not have one.
  std::shared_ptr<grpc::ServerCredentials> Credentials() const;
  State state() const;
  const std::string& file() const { return options_.certificate_file; }

 private:
  // The three as text; the authority may be empty.
  struct Texts {
    std::string certificate;
    std::string key;
    std::string authority;
    bool operator==(const Texts&) const = default;
  };

  CertificateFiles(const TlsOptions& options, std::string folder)
      : options_(options), folder_(std::move(folder)) {}
  absl::StatusOr<Texts> Read() const;
  // Puts copies where gRPC reads them, all at once.
  absl::Status Serve(const Texts& texts);
  void Watch();
  void LookAgain();

  const TlsOptions options_;
  const std::string folder_;
  Texts seen_;       // of the watching thread, once there is one
  int served_ = 0;   // folders made so far; likewise
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_;           // guarded by mutex_
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace tune::server
