// SPDX-License-Identifier: Apache-2.0
// Why a space has no valid config. Internal to tuner/space.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "tuner/space/solver.h"

namespace tune {

// Names the constraint that rejects every config, or the few that do so together. If these are too
// many, or take too long to find, it names the last of them. REQUIRES: all constraints together
// leave nothing. CANCELLED if `stopped`, which may be empty, says so.
absl::Status NothingLeft(Solver* solver, const SpaceDefinition& definition,
                         const std::function<bool()>& stopped);

}  // namespace tune
