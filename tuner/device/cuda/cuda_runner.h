// SPDX-License-Identifier: Apache-2.0
// Runs variants on an NVIDIA GPU.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tuner/device/cuda/toolkit.h"
#include "tuner/device/runner.h"

namespace tune::cuda {

// A runner on the `ordinal`-th GPU of the driver. Compiles its own kernels with the toolkit's NVRTC
// when it starts, and times with the toolkit's CUPTI. NOT_FOUND: no such GPU; FAILED_PRECONDITION:
// no driver or no NVRTC, with what to install. Without CUPTI it times with events, and says so.
//
// Use it from the thread that made it. After kFaulted, or a status that is not OK, the process must
// end, by _exit: the destructor does not touch the driver then, but CUPTI would at a normal exit.
absl::StatusOr<std::unique_ptr<Runner>> MakeRunner(int ordinal, const Toolkit& toolkit);

// With the toolkit of FindToolkit().
absl::StatusOr<std::unique_ptr<Runner>> MakeRunner(int ordinal);

// A runner that reads counters: Count and Calibrate. It times with events, so it is of no use for
// measuring: CUPTI's activity records and its range profiler do not work together in one process.
// If nothing can be counted the runner is still created, and Count reports why.
absl::StatusOr<std::unique_ptr<Runner>> MakeCountingRunner(int ordinal);

}  // namespace tune::cuda
