// SPDX-License-Identifier: Apache-2.0
// The words for people in which a kernel's own checker (tuner/tune_check.h) reports a launch.
#pragma once

#include <string>

#include "tuner/device/problem_checks.h"
#include "tuner/plan.h"
#include "tuner/tune_check.h"

namespace tune {

inline bool HasChecker(const ProblemPlan& plan) { return !plan.checker.steps.empty(); }

// The output that a checker's argument means as the reference wrote it; empty: it means another.
std::string OutputOfReference(const BufferPlan& wanted);

// "3 faults, at 17: out of order: 5, expected 4"; empty: there are none. Text and numbers are a
// kernel's, and may be anything.
std::string DescribeFaults(const TuneFaults& faults);

// Makes the verdict wrong if there are faults.
void AddFaults(const TuneFaults& faults, Verdict& verdict);

}  // namespace tune
