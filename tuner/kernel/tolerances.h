// SPDX-License-Identifier: Apache-2.0
// Tolerances of a problem's results. Internal to tuner/kernel.
#pragma once

#include "absl/status/status.h"
#include "tuner/kernel/evaluation.h"
#include "tuner/kernel/parsed_spec.h"
#include "tuner/plan.h"

namespace tune {

// Sets the tolerances of a plan whose buffers are known.
absl::Status PlanTolerances(const ParsedSpec& parsed, const Evaluation& evaluation,
                            ProblemPlan& plan);

}  // namespace tune
