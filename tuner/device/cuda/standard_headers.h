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

// Advice about a header that NVRTC's log reports missing: one sentence, with a line break. Empty if
// none is missing.
std::string WhyNoHeader(const std::string& log, const std::vector<std::string>& include_roots);

// Advice about a header of the host's library in a log: the file and line of the plan that include
// it, with what to do. Empty if the log names none, or no file of the plan includes it.
std::string WhyHostHeader(const std::string& log, const CompilePlan& plan);

}  // namespace tune::cuda
