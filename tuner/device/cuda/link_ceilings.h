// SPDX-License-Identifier: Apache-2.0
// The slow roofs of the picture: copies between host and device, and the time of an empty kernel.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "tuner/device/cuda/activity_clock.h"
#include "tuner/device/cuda/device_context.h"
#include "tuner/device/cuda/probe_bench.h"
#include "tuner/device/runner.h"

namespace tune::cuda {

// link_h2d, link_d2h (page-locked host memory), link_h2d_pageable, link_d2h_pageable in bytes/s.
// `memory` is overwritten with zeros at most.
absl::StatusOr<std::vector<Ceiling>> MeasureLinks(const DeviceContext& context,
                                                  const DeviceMemory& memory);

// launch (by CUPTI, if `activity` is not null), launch_events, launch_graph in ns.
absl::StatusOr<std::vector<Ceiling>> MeasureLaunches(const DeviceContext& context,
                                                     const ProbeBench& bench,
                                                     ActivityClock* activity);

}  // namespace tune::cuda
