// SPDX-License-Identifier: Apache-2.0
// Which options a kernel spec may hand to NVRTC.
#pragma once

#include <string>

namespace tune {

// NVRTC takes options that read and write files of the host (--pre-include, --create-pch, ...), so
// only those that choose how code is generated are let through. `option` is one token.
// Assertions of the kernel are left out: the one option that means something on the CPU, too.
inline constexpr char kNoAsserts[] = "-DNDEBUG";

bool IsAllowedNvrtcOption(const std::string& option);

// The allow-list for people: "--use_fast_math, --ftz=true|false, ...".
std::string AllowedNvrtcOptions();

}  // namespace tune
