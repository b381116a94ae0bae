// SPDX-License-Identifier: Apache-2.0
// Runs a program and waits for it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tune::cpu {

struct ProgramResult {
  int exit_code = 0;   // 128 + the signal's number if it was killed
  std::string output;  // stdout and stderr together, cut at 64 KiB
};

// The program inherits the limits, the process group and the environment of this process, but for
// TMPDIR, which is `folder`, and the language, which is C's. It runs in `folder`. UNAVAILABLE: it
// could not be started.
absl::StatusOr<ProgramResult> RunProgram(const std::vector<std::string>& arguments,
                                         const std::string& folder);

}  // namespace tune::cpu
