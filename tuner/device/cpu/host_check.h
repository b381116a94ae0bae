// SPDX-License-Identifier: Apache-2.0
// Compares what a kernel wrote with what the reference wrote, and hashes what it should not write.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tuner/device/cpu/launcher.h"
#include "tuner/plan.h"
#include "tuner/problem.h"

namespace tune::cpu {

struct HostArray {
  DType dtype = DType::kF32;
  void* data = nullptr;
  int64_t count = 0;
};

struct CompareResult {
  double max_abs = 0;
  double max_rel = 0;
  double error_squares = 0;
  double reference_squares = 0;
  uint64_t bad = 0;
  uint64_t nan = 0;  // of the bad ones
  // Of the element that exceeds its tolerance the most; NaN exceeds it by infinity.
  double worst_excess = 0;
  int64_t worst_index = -1;
  double worst_value = 0;
  double worst_reference = 0;
};

// An element is right if |out - reference| <= atol + rtol * |reference|, in double precision.
// REQUIRES: equal counts.
CompareResult Compare(Launcher& launcher, const HostArray& out, const HostArray& reference,
                      const TolerancePlan& tolerance);

// REQUIRES: data is aligned to 8 bytes.
uint64_t Hash(Launcher& launcher, const void* data, size_t bytes);

}  // namespace tune::cpu
