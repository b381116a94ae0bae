// SPDX-License-Identifier: Apache-2.0
// Files that the user named.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tune::client {

// INVALID_ARGUMENT if the file cannot be read, with the reason, or has more than 64 MiB.
absl::StatusOr<std::string> ReadFile(const std::string& path);
// INVALID_ARGUMENT if the file cannot be written, with the reason.
absl::Status WriteFile(const std::string& path, const std::string& text);

}  // namespace tune::client
