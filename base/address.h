// SPDX-License-Identifier: Apache-2.0
// The address at which a daemon listens by default, and how addresses are parsed. The daemon and
// its clients share this rule.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tune {

// Returns $TUNE_ADDRESS if it is set, else a unix socket: $XDG_RUNTIME_DIR/tunerd.sock, for root
// /run/tunerd/tunerd.sock, else /tmp/tunerd-<uid>/tunerd.sock. The form is gRPC's, "unix:/path".
std::string DefaultAddress();

// The path of "unix:/run/x.sock" and "unix:///run/x.sock"; empty for anything else.
std::string SocketPath(const std::string& address);

// The parts of "host:7070", "[::1]:7070", and gRPC's longer forms such as "dns:///host:7070".
// INVALID_ARGUMENT without a port, for which gRPC would take 443.
struct HostPort {
  std::string host;
  std::string port;
};
absl::StatusOr<HostPort> HostPortOf(const std::string& address);

}  // namespace tune
