// SPDX-License-Identifier: Apache-2.0
// The standard library's headers for NVRTC, which has none: those that a kernel can use are ours or
// lead to CUDA's C++ library (CCCL); those of the host's library say so.
#pragma once

#include <string>
#include <vector>

#include "tuner/device/cuda/toolkit.h"
#include "tuner/plan.h"

namespace tune::cuda {

// Included ahead of every source: macros that other compilers of CUDA have without a header.
inline constexpr char kNumbersHeader[] = "tune_numbers.h";

// By the names that sources include them by.
std::vector<SourceFile> StandardHeaders(const Toolkit& toolkit);

// What to do about a header that NVRTC's log misses: one sentence, with a line break; empty if it
// misses none.
std::string WhyNoHeader(const std::string& log, const std::vector<std::string>& include_roots);

// Where a log says that a header is of the host's library: which file and line of the plan include
// it, with what to do; empty if the log says no such thing, or no file of the plan does.
std::string WhyHostHeader(const std::string& log, const CompilePlan& plan);

}  // namespace tune::cuda
