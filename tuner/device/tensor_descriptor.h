// SPDX-License-Identifier: Apache-2.0
// The args of a kernel that names its parameters, and takes tensor descriptors in several of them.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "tuner/artifact.h"
#include "tuner/plan.h"

namespace tune {

// The value for a parameter: the arg of its name, or a part of a buffer that is passed as a tensor
// descriptor. The parts of a buffer "a" are "a", a tensor map or, on targets without such, a
// pointer; "a.shape[0]" and "a.strides[0]", ..., in elements; and the flags "a.nan_padding" and
// "a.round_f32_to_tf32". INVALID_ARGUMENT, in words for people, if no arg has it.
absl::StatusOr<ArgPlan> ArgOfParameter(const std::vector<ArgPlan>& args,
                                       const ParameterFact& parameter);

}  // namespace tune
