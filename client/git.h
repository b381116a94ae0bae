// SPDX-License-Identifier: Apache-2.0
// Asks git about the repository that the working folder is in.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tune::client {

// What `git ARGUMENTS` prints. No shell is involved. INVALID_ARGUMENT with git's own words when it
// fails, or when it prints more than 16 MiB.
absl::StatusOr<std::string> RunGit(const std::vector<std::string>& arguments);

// The commit that a revision names, 40 hex digits. INVALID_ARGUMENT if it names none.
absl::StatusOr<std::string> CommitOf(const std::string& revision);

}  // namespace tune::client
