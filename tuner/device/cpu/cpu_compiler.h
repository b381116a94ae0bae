// SPDX-License-Identifier: Apache-2.0
// The system's C++ compiler as tune::Compiler: a kernel's CUDA C++ behind a prelude, to a shared
// object that cpu_runner can enter.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tuner/device/compiler.h"
#include "tuner/device/include_roots.h"

namespace tune::cpu {

// Uses $TUNE_CXX, else c++, g++ or clang++ on the PATH. With TUNE_CPU_SANITIZE=1 in the environment
// kernels are built with address and undefined-behaviour sanitizers. FAILED_PRECONDITION: no
// compiler.
absl::StatusOr<std::unique_ptr<Compiler>> MakeCompiler(const IncludeRoots& include_roots = {});

}  // namespace tune::cpu
