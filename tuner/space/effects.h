// SPDX-License-Identifier: Apache-2.0
// Counts how many configs each constraint of a space rejects.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner/space/space.h"

namespace tune {

struct ConstraintEffect {
  std::string text;
  // nullopt if counting takes too long or an expression cannot be evaluated.
  std::optional<double> rejects;        // of the product, if it were the only constraint
  std::optional<double> rejects_alone;  // configs that every other constraint allows
};

// Counts the space twice for each constraint: without it, and with it alone. It takes them in order
// and stops after a few seconds; the constraints left then have no counts. `valid` is the count
// with all. Errors as Space::Build.
absl::StatusOr<std::vector<ConstraintEffect>> ConstraintEffects(const SpaceDefinition& definition,
                                                                double valid,
                                                                const SpaceEffort& effort = {});

// The combinations of values, valid or not.
double ProductOf(const SpaceDefinition& definition);

}  // namespace tune
