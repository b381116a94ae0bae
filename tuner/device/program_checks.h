// SPDX-License-Identifier: Apache-2.0
// Whether a program's steps can launch what its compiler made.
#pragma once

#include "absl/status/status.h"
#include "tuner/artifact.h"
#include "tuner/plan.h"

namespace tune {

// INVALID_ARGUMENT, in words for people, if a step's args are not what its entry takes, or its
// blocks are not of the size that the entry was compiled for. OK for an artifact that does not
// tell, or that is none.
absl::Status CheckSteps(const ProgramPlan& program, const Artifact& artifact);

}  // namespace tune
