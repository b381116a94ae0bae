// SPDX-License-Identifier: Apache-2.0
// Compiles CUDA C++ to cubins in memory. Needs no GPU and no driver, and never loads libcuda, so
// that the process may run under an address space limit.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tuner/device/compiler.h"
#include "tuner/device/cuda/toolkit.h"
#include "tuner/device/include_roots.h"

namespace tune::cuda {

// FAILED_PRECONDITION if NVRTC cannot be opened; says what to install.
absl::StatusOr<std::unique_ptr<Compiler>> MakeNvrtcCompiler(const Toolkit& toolkit,
                                                            const IncludeRoots& include_roots = {});

// With the toolkit of FindToolkit().
absl::StatusOr<std::unique_ptr<Compiler>> MakeNvrtcCompiler(const IncludeRoots& include_roots = {});

}  // namespace tune::cuda
