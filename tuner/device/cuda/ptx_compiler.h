// SPDX-License-Identifier: Apache-2.0
// Takes kernels that are written in PTX. Needs no GPU and no driver.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tuner/device/compiler.h"
#include "tuner/device/cuda/toolkit.h"

namespace tune::cuda {

// Makes cubins with nvJitLink. If the toolkit has none, an artifact is the text itself, which the
// driver compiles when it loads it: errors are then launch_failed, and resources are known once a
// variant has run. FAILED_PRECONDITION if there is no NVRTC, which knows the targets.
absl::StatusOr<std::unique_ptr<Compiler>> MakePtxCompiler(const Toolkit& toolkit);

// With the toolkit of FindToolkit().
absl::StatusOr<std::unique_ptr<Compiler>> MakePtxCompiler();

}  // namespace tune::cuda
