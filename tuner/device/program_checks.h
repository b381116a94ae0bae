// SPDX-License-Identifier: Apache-2.0
// Whether and how a program's steps can launch what its compiler made.
#pragma once

#include "absl/status/status.h"
#include "tuner/artifact.h"
#include "tuner/plan.h"

namespace tune {

// Adapts the steps to the artifact: blocks, clusters, shared memory, scratch, the args taken and
// their order, and the binary's names of entries and symbols, which differ for templates and in
// namespaces. INVALID_ARGUMENT, in words for people, if a step's args do not fit its entry's
// parameters, or its blocks differ from the size for which the entry was compiled. OK for an
// artifact that does not describe its entries, or that failed. Steps that fit stay as they are.
absl::Status FitSteps(const Artifact& artifact, ProgramPlan& program);

}  // namespace tune
