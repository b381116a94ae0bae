// SPDX-License-Identifier: Apache-2.0
// What a compiled kernel's shared object says of its parameters, read without loading it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tuner/artifact.h"

namespace tune::cpu {

// Of an entry. Nothing if the file does not say it, or is no shared object that can be read to its
// end.
std::optional<std::vector<ParameterFact>> ReadParameterFacts(const std::string& binary,
                                                             const std::string& entry);

}  // namespace tune::cpu
