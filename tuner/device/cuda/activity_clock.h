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

// The launches of a sample.
struct SampleShape {
  size_t kernels = 1;
  size_t leading_memsets = 0;  // right before the first of them
};

// CUPTI has one user per process, so there is one clock. Not thread-safe.
class ActivityClock {
 public:
  // Starts recording. Call after cuInit and before the context is created. `hardware_trace`:
  // Blackwell and later time kernels in hardware, without instrumenting them.
  // Not OK: why CUPTI cannot be used here; times then come from events.
  static absl::StatusOr<ActivityClock*> Start(const Toolkit& toolkit, bool hardware_trace);

  // Forgets all records. From here on memsets are recorded, too, if `memsets`. FAILED_PRECONDITION:
  // CUPTI does not record them. REQUIRES: the device is idle.
  absl::Status Clear(bool memsets = false);

  // Durations in ns of the `count` samples launched since Clear, in the order they ran, each from
  // its first start to its last end. DATA_LOSS if records are missing or carry no time. REQUIRES:
  // the device is idle, and memsets are recorded if a sample begins with any.
  absl::StatusOr<std::vector<double>> Collect(size_t count, const SampleShape& shape = {});
};

// Turns activity records into samples, as Collect does. DATA_LOSS: see there.
struct ActivityRecord {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  bool memset = false;
};
absl::StatusOr<std::vector<double>> SampleDurations(std::vector<ActivityRecord> records,
                                                    size_t count, const SampleShape& shape);

}  // namespace tune::cuda
