// SPDX-License-Identifier: Apache-2.0
// Elements of a buffer, whatever their type.
#pragma once

#include <cstdint>

#include "tuner/plan.h"
#include "tuner/problem.h"

namespace tune {

// Elements [begin, end) of `data`, widened.
void LoadElements(DType dtype, const void* data, int64_t begin, int64_t end, double* values);

// Fills elements [begin, end) of `data` by tuner/device/fill.h.
void FillElements(DType dtype, const Fill& fill, uint64_t key, int64_t begin, int64_t end,
                  void* data);

// From any type to f32 or f64. REQUIRES: `to` is one of these.
void WidenElements(DType from, const void* in, DType to, void* out, int64_t begin, int64_t end);

}  // namespace tune
