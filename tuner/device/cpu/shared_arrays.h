// SPDX-License-Identifier: Apache-2.0
// Dynamic shared memory in a kernel's text: C++ has no array of unknown size that is given its
// memory at a launch, so the declaration becomes a pointer.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace tune::cpu {

// `text` with each `extern __shared__ TYPE NAME[];` replaced; every other byte, and the number of
// lines, stays as it is.
std::string RewriteSharedArrays(absl::string_view text);

}  // namespace tune::cpu
