// SPDX-License-Identifier: Apache-2.0
// NVRTC opens any file that an #include names, and prints its first lines in the log. A source may
// therefore only name headers that came with it, or CUDA's own by a path below CUDA's folder.
#pragma once

#include "absl/status/status.h"
#include "tuner/plan.h"

namespace tune::cuda {

// INVALID_ARGUMENT names the file and the include: absolute, with "..", or computed by a macro.
// Comments and strings are not told apart from code, so that nothing can hide in them: a line of a
// comment that begins like an include is held to the same rules. What is left open: __has_include
// put together from pieces tells whether a file exists.
absl::Status CheckIncludes(const CompilePlan& plan);

}  // namespace tune::cuda
