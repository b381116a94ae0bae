// SPDX-License-Identifier: Apache-2.0
// Fills whose elements depend on each other: they are made on the host, once for a problem, and are
// the same for every device.
#pragma once

#include <cstdint>
#include <string>

#include "tuner/plan.h"

namespace tune {

// Permutations, sorted, one-hot, triangular and sparse.
bool IsStructured(Fill::Kind kind);

// The buffer whose name its random numbers are drawn by.
const std::string& KeyNameOf(const BufferPlan& buffer);

// How many elements and rows StructuredElements goes through: its time is proportional to this, its
// memory is that of the result. A sparse buffer of few elements may have any number of rows.
int64_t StructuredFillSteps(const BufferPlan& buffer);

// The buffer's elements, little endian. `key` is FillKey's. REQUIRES: IsStructured.
std::string StructuredElements(const BufferPlan& buffer, uint64_t key);

}  // namespace tune
