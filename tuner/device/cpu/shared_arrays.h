// SPDX-License-Identifier: Apache-2.0
// Dynamic shared memory in a kernel's text: C++ has no array of unknown size that is given its
// memory at a launch, so the declaration becomes a pointer.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace tune::cpu {

// `text` with each `extern __shared__ TYPE NAME[];` replaced, and `__align__` for an `alignas`
// behind `__shared__`, where C++ has no place for it; every other byte, and the number of lines,
// stays.
std::string RewriteSharedArrays(absl::string_view text);

}  // namespace tune::cpu
