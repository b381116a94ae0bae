// SPDX-License-Identifier: Apache-2.0
// Reads keys and tokens, and refuses a file that another user may read.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tune {

// The text of `path`, at most 64 KiB. The group may read it only if root owns the file.
// INVALID_ARGUMENT: it cannot be read. PERMISSION_DENIED: others may read it.
absl::StatusOr<std::string> ReadSecret(const std::string& path);

}  // namespace tune
