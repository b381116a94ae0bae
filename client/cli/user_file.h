// SPDX-License-Identifier: Apache-2.0
// Files that the user named.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tune::client {

// INVALID_ARGUMENT if the file cannot be read, with the reason, or has more than `bytes_max`.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t bytes_max = size_t{64} << 20);
// Replaces the file as a whole: a reader never sees a part of it. INVALID_ARGUMENT if it cannot be
// written, with the reason; what was there before is left as it was.
absl::Status WriteFile(const std::string& path, const std::string& text);

}  // namespace tune::client
