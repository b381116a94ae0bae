// SPDX-License-Identifier: Apache-2.0
// A function on the host that computes the expected results of a problem: the bytes of its
// arguments and of its results. Both ends of a worker's socket use this format.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tuner/plan.h"

namespace tune {

// The elements of an input or an in-out before a launch.
std::string ElementsOf(const BufferPlan& buffer, const HostCall& call);

// The type of a result: `call.wide` for floating ones.
DType ResultDType(const BufferPlan& buffer, const HostCall& call);

// Splits `results`, the outputs and in-outs one after the other in the order of the call's buffers,
// and adds each to `files` as an expected result. DATA_LOSS if its size does not match.
absl::Status TakeResults(const HostCall& call, const std::string& results,
                         std::vector<BufferFile>& files);

}  // namespace tune
