// SPDX-License-Identifier: Apache-2.0
// Scalar args as the bytes that a kernel takes.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "tuner/plan.h"

namespace tune {

// Writes the scalar as its dtype, at most 8 bytes, and returns how many. FAILED_PRECONDITION for a
// dtype or a value that no kernel takes by value.
absl::StatusOr<size_t> StoreScalar(const ScalarPlan& scalar, unsigned char* bytes);

}  // namespace tune
