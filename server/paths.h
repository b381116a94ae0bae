// SPDX-License-Identifier: Apache-2.0
// Where the daemon keeps its state.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tune::server {

// $TUNE_STATE_DIR, else $XDG_STATE_HOME/tunectl, else /var/lib/tunectl for root, else
// ~/.local/state/tunectl. FAILED_PRECONDITION if there is no home either.
absl::StatusOr<std::string> DefaultStateDir();

// Creates a folder and its parents; the last one is private (0700) if it is created here.
absl::Status MakePrivateDir(const std::string& path);

}  // namespace tune::server
