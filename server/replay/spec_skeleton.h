// SPDX-License-Identifier: Apache-2.0
// A kernel spec to start from, made of a recording.
#pragma once

#include <string>

#include "tuner/device/replay/recording.h"

namespace tune::server {

// The spec as text: params with their values, the best config as default, constraints. Fields that
// a recording does not have (arguments, grid, reference) are left to the author; a note in the text
// says so.
std::string SpecSkeleton(const replay::Recording& recording);

}  // namespace tune::server
