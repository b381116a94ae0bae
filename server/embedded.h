// SPDX-License-Identifier: Apache-2.0
// The server inside tunectl, for when there is no daemon.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/server.h"

namespace tune::server {

// Starts a server with these options on the default state folder, reachable through
// InProcessChannel only, logging warnings and errors. FAILED_PRECONDITION if it is to own the
// folder and another process does; the error says how to share.
absl::StatusOr<std::unique_ptr<Server>> StartEmbedded(ServerOptions options);

}  // namespace tune::server
