// SPDX-License-Identifier: Apache-2.0
// The values that parameters and expressions have.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace tune {

// A boolean, integer, float or string. Ordering and equality are those of std::variant: values of
// different alternatives are different, even 1 and 1.0.
using Value = std::variant<bool, int64_t, double, std::string>;

// The canonical form, used in config text and hashes: True, 64, 0.5, smem.
std::string ToText(const Value& value);

// The body of a C++ macro: 1, 64, 0.5, smem.
std::string ToMacro(const Value& value);

// A Python literal: True, 64, 0.5, 'smem'. REQUIRES: a string has neither quotes nor backslashes.
std::string ToPython(const Value& value);

}  // namespace tune
