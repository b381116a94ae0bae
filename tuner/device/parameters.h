// SPDX-License-Identifier: Apache-2.0
// Compares the args of a spec with the parameters in the compiled kernel's artifact. A kernel reads
// its arguments as it declares them: one that is launched with others crashes, or computes
// nonsense.
#pragma once

#include <string>
#include <vector>

#include "tuner/artifact.h"
#include "tuner/plan.h"

namespace tune {

// Empty if `args` fit; else what is wrong with each that does not, with the line of the source:
// "saxpy.cu:12: arg 1 'n' is a scalar i32 in the spec; parameter 1 of 'saxpy' is 'const float* x'".
// `plan` is what was compiled: its text has the names that the artifact lacks. `alone`: the program
// has no other entry, which could write what this one only reads.
std::string WhyArgsDoNotFit(const CompilePlan& plan, const std::string& entry,
                            const std::vector<ArgPlan>& args,
                            const std::vector<ParameterFact>& parameters, bool alone);

// Reports args that stand in another order than the source's parameters of the same names:
// "saxpy.cu:12: ...". They may fit all the same, being of one type. Empty if the names agree, or
// have nothing in common.
std::string WhyOrderIsDoubtful(const CompilePlan& plan, const std::string& entry,
                               const std::vector<ArgPlan>& args);

}  // namespace tune
