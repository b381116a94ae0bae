// SPDX-License-Identifier: Apache-2.0
// Accepts cubins as they are, and reads their parameters and resources.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tuner/device/compiler.h"

namespace tune::cuda {

// For the targets of NVRTC, which it needs for nothing else. FAILED_PRECONDITION as
// MakeNvrtcCompiler.
absl::StatusOr<std::unique_ptr<Compiler>> MakeCubinCompiler();

}  // namespace tune::cuda
