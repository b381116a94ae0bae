// SPDX-License-Identifier: Apache-2.0
// Compares what a kernel wrote with what the reference wrote, and hashes what it should not write.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tuner/device/compare.h"
#include "tuner/device/cpu/launcher.h"
#include "tuner/plan.h"
#include "tuner/problem.h"

namespace tune::cpu {

struct HostArray {
  DType dtype = DType::kF32;
  void* data = nullptr;
  int64_t count = 0;
};

// REQUIRES: equal counts.
CompareResult Compare(Launcher& launcher, const HostArray& out, const HostArray& reference,
                      const TolerancePlan& tolerance);

// REQUIRES: data is aligned to 8 bytes.
uint64_t Hash(Launcher& launcher, const void* data, size_t bytes);

}  // namespace tune::cpu
