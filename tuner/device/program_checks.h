// SPDX-License-Identifier: Apache-2.0
// Whether and how a program's steps can launch what its compiler made.
#pragma once

#include "absl/status/status.h"
#include "tuner/artifact.h"
#include "tuner/plan.h"

namespace tune {

// Gives the steps what the artifact decides of them: blocks, clusters, shared memory, scratch,
// which args are taken, in which order, and what the binary calls entries and symbols, since
// templates and what stands in a namespace have other names there. Then, INVALID_ARGUMENT, in words
// for people, if a step's args are not what its entry takes, or its blocks are not of the size that
// the entry was compiled for. OK for an artifact that does not tell, or that is none. Steps that
// fit stay as they are.
absl::Status FitSteps(const Artifact& artifact, ProgramPlan& program);

}  // namespace tune
