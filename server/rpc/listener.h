// SPDX-License-Identifier: Apache-2.0
// The addresses a daemon listens on: unix sockets, guarded by their files' modes and by who is at
// the other end, and TCP under TLS.
#pragma once

#include <sys/un.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/rpc/tls_options.h"

namespace tune::server {

// INVALID_ARGUMENT for TCP without a port or a certificate.
absl::Status CheckTcp(const std::string& address, const TlsOptions& tls);

// INVALID_ARGUMENT: a path that no socket can have.
absl::StatusOr<sockaddr_un> SocketName(const std::string& path);

// Makes the socket's folder if it is not there. FAILED_PRECONDITION if a daemon answers there
// already, if anything but a socket is there, or if the folder is another user's or cannot be
// written to. The error names the path.
absl::Status PrepareSocket(const std::string& path);

}  // namespace tune::server
