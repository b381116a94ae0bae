// SPDX-License-Identifier: Apache-2.0
// Reads the facts of a compiled kernel's parameters from its shared object, without loading it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tuner/artifact.h"

namespace tune::cpu {

// The facts of an entry's parameters, or nullopt if the file lacks them or is not a complete shared
// object.
std::optional<std::vector<ParameterFact>> ReadParameterFacts(const std::string& binary,
                                                             const std::string& entry);

}  // namespace tune::cpu
