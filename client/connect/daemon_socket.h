// SPDX-License-Identifier: Apache-2.0
// Connections to a daemon's unix socket, made only if the right user listens. Anybody may have put
// a socket where a daemon is looked for. gRPC speaks on the descriptor that was checked, so nobody
// who may write to the folder can swap it in between.
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

// UNAVAILABLE: no process answers. PERMISSION_DENIED: we may not connect, or the process that
// listens is not ours, root's or of a trusted user. INVALID_ARGUMENT: no such user, or a path that
// no socket can have. The channel does not connect again once the daemon has gone.
absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToDaemon(const std::string& socket_path,
                                                               const SocketOptions& options);

}  // namespace tune::client
