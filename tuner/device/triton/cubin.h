// SPDX-License-Identifier: Apache-2.0
// What a cubin itself says of a kernel's parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tune::triton {

// The sizes of an entry's parameters, bytes, in their order. Nothing if the bytes are no cubin that
// can be read to its end, or it has no such entry.
std::optional<std::vector<int64_t>> ParameterBytes(absl::string_view cubin,
                                                   const std::string& entry);

}  // namespace tune::triton
