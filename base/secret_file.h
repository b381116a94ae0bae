// SPDX-License-Identifier: Apache-2.0
// Reads files that the user named: keys and tokens, which no other user may read, and others. A
// path may be a symbolic link.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace tune {

// The text of `path`, at most 64 KiB. The group may read it only if root owns the file.
// INVALID_ARGUMENT: it cannot be read. PERMISSION_DENIED: others may use it.
absl::StatusOr<std::string> ReadSecret(const std::string& path);

// Whom the bits `mask` of a file's mode let do what: "mode 0604 lets others read it".
std::string ModeLets(mode_t mode, mode_t mask);

// The text of a file that others may read. INVALID_ARGUMENT: it cannot be read, or is no regular
// file, or has more than `bytes_max`.
absl::StatusOr<std::string> ReadNamed(const std::string& path, size_t bytes_max);

}  // namespace tune
