// SPDX-License-Identifier: Apache-2.0
// Which options a kernel spec may hand to a compiler.
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

// Empty if the compiler of `target` may be given `option`; else what is wrong, with the option's
// name and what is allowed. The system's compiler takes none: its options could load plugins, run
// programs and write files (-fplugin, -wrapper, -B, -specs, @file, -o, -dump...).
std::string WhyNotAllowedOption(const std::string& option, const std::string& target);

}  // namespace tune
