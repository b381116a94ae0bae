// SPDX-License-Identifier: Apache-2.0
// What of CUDA a device or a spec has no place for, told by name and line with what to do instead.
#pragma once

#include <string>

#include "tuner/plan.h"

namespace tune {

// "blur.cu:12: 'blur' takes a texture, cudaTextureObject_t image: ..." if an entry has a parameter
// that no arg of a spec can be. Empty if none has.
std::string WhyNoSuchParameter(const CompilePlan& plan);

// Of the log of a compiler: the first line with an error that is about code of the host, about a
// type whose header is missing, or about a construct which the device lacks, as
// "blur.cu:14: tex2D: ...". Empty if there is none.
std::string WhyNotOnHost(const std::string& log);  // of the CPU device's compiler
std::string WhyNotOnGpu(const std::string& log);   // of NVRTC

}  // namespace tune
