// SPDX-License-Identifier: Apache-2.0
// The address a daemon listens on: a unix socket guarded by its file's mode, or TCP under TLS.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"
#include "server/rpc/tls_options.h"

namespace tune::server {

// Without an authority for clients' certificates a TCP port is for reading (server/rpc/access.h).
// INVALID_ARGUMENT for TCP without a certificate, and for files that cannot be read.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> CredentialsFor(const std::string& address,
                                                                        const TlsOptions& tls);

// Makes the socket's folder if it is not there. FAILED_PRECONDITION if a daemon answers there
// already (gRPC would take its socket away), or if the folder is another user's.
absl::Status PrepareSocket(const std::string& path);

// Lets the owner and the group connect, nobody else.
absl::Status RestrictSocket(const std::string& path);

}  // namespace tune::server
