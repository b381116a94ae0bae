// SPDX-License-Identifier: Apache-2.0
// Gives the kernels of a comparison the same inputs.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tuner/plan.h"

namespace tune::server {

// Fills the inputs of a problem with what the first kernel's problem has of the same names, be it a
// fill or a file, for its reference on the host as well. `notes` say, for people, what that changes
// and what has no equal. Ahead of any compilation. INVALID_ARGUMENT: files say what is right of the
// problem, which hold of the inputs that it had.
absl::Status ShareInputs(const ProblemPlan& first, ProblemPlan& problem,
                         std::vector<std::string>& notes);

// Inputs that only another kernel has are filled, as it says, beside those of `problem`.
void AddInputs(const ProblemPlan& other, ProblemPlan& problem);

}  // namespace tune::server
