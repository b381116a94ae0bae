// SPDX-License-Identifier: Apache-2.0
// A function on the host that computes what is right of a problem: the bytes it is given, and what
// is made of those it gives back. Both ends of a worker's socket agree on them here.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tuner/plan.h"

namespace tune {

// What an input or an in-out holds before a launch.
std::string ElementsOf(const BufferPlan& buffer, const HostCall& call);

// Of which type a result is: floating ones are wide.
DType ResultDType(const BufferPlan& buffer, const HostCall& call);

// Adds what `results` holds of each output and in-out, one after the other in the order of the
// call's buffers, as what is right. DATA_LOSS: it is not as long as that.
absl::Status TakeResults(const HostCall& call, const std::string& results,
                         std::vector<BufferFile>& files);

}  // namespace tune
