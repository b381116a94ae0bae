// SPDX-License-Identifier: Apache-2.0
// What of CUDA a device or a spec has no place for, told by name and line with what to do instead.
#pragma once

#include <string>

#include "tuner/plan.h"

namespace tune {

// "blur.cu:12: 'blur' takes a texture, cudaTextureObject_t image: ..." if an entry has a parameter
// that no arg of a spec can be. Empty if none has.
std::string WhyNoSuchParameter(const CompilePlan& plan);

// Of the log of a compiler of the CPU device: the first line with an error that is about a
// construct which that device lacks, as "blur.cu:14: tex2D: ...". Empty if there is none.
std::string WhyNotOnHost(const std::string& log);

}  // namespace tune
