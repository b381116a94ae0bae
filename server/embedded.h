// SPDX-License-Identifier: Apache-2.0
// The server inside tunectl, for when there is no daemon.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/server.h"

namespace tune::server {

// Starts it on the default state folder, reachable through InProcessChannel only, logging nothing
// below warnings. FAILED_PRECONDITION if a daemon has that folder: then it is the one to ask.
absl::StatusOr<std::unique_ptr<Server>> StartEmbedded();

}  // namespace tune::server
