// SPDX-License-Identifier: Apache-2.0
// Reads a kernel's parameters from its PTX. A cubin has only their sizes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tuner/artifact.h"

namespace tune::cuda {

// Returns nullopt if the text has no kernel of that name.
std::optional<std::vector<ParameterFact>> ParsePtxParameters(absl::string_view ptx,
                                                             const std::string& entry);

}  // namespace tune::cuda
