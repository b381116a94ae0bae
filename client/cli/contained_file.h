// SPDX-License-Identifier: Apache-2.0
// Opens what lies in a folder that somebody else has filled: no symbolic link leads out of it, and
// what is no regular file is not even opened.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tune::client {

// The text of the file `name` of `folder` (empty: where we are). NOT_FOUND: there is no such file
// or folder. INVALID_ARGUMENT: it cannot be read, it has more than `bytes_max` bytes, it is no
// regular file, or a link leads out of `folder`.
absl::StatusOr<std::string> ReadContained(const std::string& folder, const std::string& name,
                                          size_t bytes_max);

// Is there a folder `inner` in `folder`? NOT_FOUND: there is no `folder`. INVALID_ARGUMENT: it
// cannot be read, or a link or ".." leads out of it.
absl::StatusOr<bool> HasFolder(const std::string& folder, const std::string& inner);

}  // namespace tune::client
