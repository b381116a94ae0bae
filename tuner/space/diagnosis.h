// SPDX-License-Identifier: Apache-2.0
// Why a space has no valid config. Internal to tuner/space.
#pragma once

#include "absl/status/status.h"
#include "tuner/space/solver.h"

namespace tune {

// Names the constraint that rejects every config, the few that do so together, or the last of those
// that do. REQUIRES: all constraints together leave nothing.
absl::Status NothingLeft(Solver* solver, const SpaceDefinition& definition);

}  // namespace tune
