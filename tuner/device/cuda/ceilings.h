// SPDX-License-Identifier: Apache-2.0
// Measures the limits of a GPU, with which utilisation is compared. The best of several kernels and
// launch shapes counts; the names are those of tune.v1.Ceiling. A limit that cannot be measured has
// no entry: the tensor cores of sm_10x, which only tcgen05 drives at full rate.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "tuner/device/compiler.h"
#include "tuner/device/cuda/activity_clock.h"
#include "tuner/device/cuda/device_context.h"
#include "tuner/device/cuda/telemetry.h"
#include "tuner/device/runner.h"

namespace tune::cuda {

// The ceilings that sweeps need: dram_copy, dram_read, dram_write, f64, f32, f16, and the tensor
// cores (on sm_90a bf16 and f16 only, which compile in the time that there is). Two seconds, and up
// to 4 GiB of free memory.
absl::StatusOr<std::vector<Ceiling>> MeasureCeilings(const DeviceContext& context,
                                                     Compiler& compiler);

// Everything: also triad, caches, shared memory, all tensor types, links to the host, launches; and
// sustained compute figures after so many seconds of load each, unless that is 0. `activity` may be
// null. Ten seconds without the load, and up to 6 GiB.
absl::StatusOr<std::vector<Ceiling>> MeasureCeilingSuite(const DeviceContext& context,
                                                         Compiler& compiler,
                                                         ActivityClock* activity,
                                                         TelemetrySource& telemetry,
                                                         double sustained_seconds);

}  // namespace tune::cuda
