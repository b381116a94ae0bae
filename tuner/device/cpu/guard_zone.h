// SPDX-License-Identifier: Apache-2.0
// Memory beside a kernel's own that must not be written: filled with a pattern, which a check
// compares.
#pragma once

#include <cstddef>
#include <string>

namespace tune::cpu {

enum class GuardSide { kBefore, kAfter };

void FillGuard(unsigned char* zone, size_t bytes);

// Which bytes a kernel has written, such as "4 bytes after it, the nearest 0 bytes past its end".
// Empty if there are none. `side` is where the zone lies.
std::string DescribeGuard(const unsigned char* zone, size_t bytes, GuardSide side);

}  // namespace tune::cpu
