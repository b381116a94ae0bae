// SPDX-License-Identifier: Apache-2.0
// Runs the host's compiler and its tools.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/child_process.h"

namespace tune::cpu {

// Runs a program in `folder` and returns its exit code, and its stdout and stderr together, cut at
// 64 KiB. It inherits the limits, the process group and the environment of this process, but for
// TMPDIR, which is `folder`, and the language, which is C's. UNAVAILABLE if it cannot be started.
absl::StatusOr<ChildResult> RunProgram(const std::vector<std::string>& arguments,
                                       const std::string& folder);

}  // namespace tune::cpu
