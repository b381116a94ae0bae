// SPDX-License-Identifier: Apache-2.0
// The addresses on which a daemon listens: unix sockets, guarded by their files' modes and by their
// peers' users, and TCP under TLS.
#pragma once

#include <sys/un.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/rpc/tls_options.h"

namespace tune::server {

// INVALID_ARGUMENT for TCP without a port or a certificate.
absl::Status CheckTcp(const std::string& address, const TlsOptions& tls);

// INVALID_ARGUMENT if the path is too long or otherwise impossible for a socket.
absl::StatusOr<sockaddr_un> SocketName(const std::string& path);

// Creates the socket's folder if it does not exist. FAILED_PRECONDITION if a daemon answers at the
// path, if anything but a socket is there, or if the folder is another user's or not writable. The
// error names the path.
absl::Status PrepareSocket(const std::string& path);

}  // namespace tune::server
