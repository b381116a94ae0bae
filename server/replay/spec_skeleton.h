// SPDX-License-Identifier: Apache-2.0
// A kernel spec to start from, made of a recording.
#pragma once

#include <string>

#include "tuner/device/replay/recording.h"

namespace tune::server {

// Text format: params with their values, the best config as default, constraints. What a recording
// does not know (arguments, grid, reference) is left for its author, who is told so.
std::string SpecSkeleton(const replay::Recording& recording);

}  // namespace tune::server
