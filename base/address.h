// SPDX-License-Identifier: Apache-2.0
// Where a daemon listens unless told otherwise; the daemon and its clients share this rule.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tune {

// $TUNE_ADDRESS if set. Else a unix socket: $XDG_RUNTIME_DIR/tunerd.sock, for root
// /run/tunerd/tunerd.sock, else /tmp/tunerd-<uid>/tunerd.sock. In gRPC's form, "unix:/path".
std::string DefaultAddress();

// The path of "unix:/run/x.sock" and "unix:///run/x.sock"; empty for anything else.
std::string SocketPath(const std::string& address);

// Of "host:7070", "[::1]:7070", and gRPC's longer forms such as "dns:///host:7070".
// INVALID_ARGUMENT without a port: gRPC would take 443.
struct HostPort {
  std::string host;
  std::string port;
};
absl::StatusOr<HostPort> HostPortOf(const std::string& address);

}  // namespace tune
