// SPDX-License-Identifier: Apache-2.0
// The third clock: events round a graph of many launches, which adds next to nothing to each. It
// sees launches back to back, with a warm cache.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/device/cuda/device_context.h"

namespace tune::cuda {

// How many launches of about `estimate_ns` make a graph: 2 ms of them, at least 8.
int GraphLaunches(double estimate_ns);

// Nanoseconds of one of `launches` back to back: the median of `repeats` launches of the
// graph, after one that does not count. `launch` enqueues one launch into the context's stream and
// nothing else.
absl::StatusOr<double> TimeByGraph(const DeviceContext& context,
                                   const std::function<absl::Status()>& launch, int launches,
                                   int repeats);

}  // namespace tune::cuda
