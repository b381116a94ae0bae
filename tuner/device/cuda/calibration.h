// SPDX-License-Identifier: Apache-2.0
// Holds the counters against kernels whose counts are known by construction.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "tuner/counters/counting.h"
#include "tuner/device/compiler.h"
#include "tuner/device/cuda/device_context.h"
#include "tuner/device/cuda/harness.h"
#include "tuner/device/cuda/range_profiler.h"

namespace tune::cuda {

// FLOPs of each precision and tensor type: two lengths of the same loop are counted, so that what
// comes before and after the loop cancels out. DRAM bytes of a copy of up to 2 GiB; and that after
// the harness's flush a kernel that reads once reads all of it from memory, and causes no writes.
// Entries are not judged yet.
absl::StatusOr<std::vector<CalibrationEntry>> MeasureCalibration(const DeviceContext& context,
                                                                 Compiler& compiler,
                                                                 Harness& harness,
                                                                 RangeProfiler& profiler);

}  // namespace tune::cuda
