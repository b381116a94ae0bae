// SPDX-License-Identifier: Apache-2.0
// Explains why a kernel cannot run: constructs of CUDA that a device or a spec lacks, by name and
// line, with what to do instead.
#pragma once

#include <string>

#include "tuner/plan.h"

namespace tune {

// "blur.cu:12: 'blur' takes a texture, cudaTextureObject_t image: ..." if an entry has a parameter
// that no arg of a spec can be. Empty if none has.
std::string WhyNoSuchParameter(const CompilePlan& plan);

// The first line of a compiler's log with an error about code of the host, about a type whose
// header is missing, or about a construct that the device lacks, as "blur.cu:14: tex2D: ...". Empty
// if there is none.
std::string WhyNotOnHost(const std::string& log);  // of the CPU device's compiler
std::string WhyNotOnGpu(const std::string& log);   // of NVRTC

}  // namespace tune
