// SPDX-License-Identifier: Apache-2.0
// Connections to a daemon's unix socket, made only where the right user listens. Anybody may have
// put a socket where a daemon is looked for. The descriptor that was checked is the one that gRPC
// then speaks on, so that nothing can be swapped between, whoever may write to the folder.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"

namespace tune::client {

struct SocketOptions {
  // A further user to trust, by name or number; empty: $TUNE_DAEMON_USER.
  std::string daemon_user;
  std::chrono::milliseconds timeout = std::chrono::milliseconds(1500);
  int message_bytes_max = 64 << 20;
};

// UNAVAILABLE: nobody answers. PERMISSION_DENIED: we may not connect, or the process that listens
// is not ours, root's or of a user that is trusted. INVALID_ARGUMENT: no such user, or a path that
// no socket can have.
// The channel does not connect again once the daemon has gone.
absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToDaemon(const std::string& socket_path,
                                                               const SocketOptions& options);

}  // namespace tune::client
