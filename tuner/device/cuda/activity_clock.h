// SPDX-License-Identifier: Apache-2.0
// Kernel start and end times from CUPTI's activity records. They carry none of the launch overhead
// that CUDA events add (2 us on an H200), and their spread is a fraction of the events'.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/device/cuda/toolkit.h"

namespace tune::cuda {

// Kernels whose names begin like this are the harness's own and are left out of the records.
inline constexpr char kHarnessPrefix[] = "tune_harness_";

// CUPTI has one user per process, so there is one clock. Not thread-safe.
class ActivityClock {
 public:
  // Starts recording. Call after cuInit and before the context is created. `hardware_trace`:
  // Blackwell and later time kernels in hardware, without instrumenting them.
  // Not OK: why CUPTI cannot be used here; times then come from events.
  static absl::StatusOr<ActivityClock*> Start(const Toolkit& toolkit, bool hardware_trace);

  // Forgets all records. REQUIRES: the device is idle.
  void Clear();

  // Durations in ns of the `count` kernels launched since Clear, in the order they ran.
  // DATA_LOSS if records are missing or carry no time. REQUIRES: the device is idle.
  absl::StatusOr<std::vector<double>> Collect(size_t count);
};

}  // namespace tune::cuda
