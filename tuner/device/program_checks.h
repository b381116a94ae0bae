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

// Entries and symbols by the names that the artifact has for them: templates and what stands in a
// namespace have others than in the source. CheckSteps comes before, since it tells people.
void Bind(const Artifact& artifact, ProgramPlan& program);

}  // namespace tune
