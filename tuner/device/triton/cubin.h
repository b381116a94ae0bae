// SPDX-License-Identifier: Apache-2.0
// Reads a kernel's parameters from its cubin.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tune::triton {

// The sizes of an entry's parameters, bytes, in their order. nullopt if the bytes are not a cubin
// that can be read to its end, or it has no such entry.
std::optional<std::vector<int64_t>> ParameterBytes(absl::string_view cubin,
                                                   const std::string& entry);

}  // namespace tune::triton
