// SPDX-License-Identifier: Apache-2.0
// What a kernel's PTX says of its parameters. A cubin tells their sizes only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tuner/artifact.h"

namespace tune::cuda {

// Nothing if the text has no kernel of that name.
std::optional<std::vector<ParameterFact>> ParsePtxParameters(absl::string_view ptx,
                                                             const std::string& entry);

}  // namespace tune::cuda
