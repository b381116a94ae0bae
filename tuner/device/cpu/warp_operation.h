// SPDX-License-Identifier: Apache-2.0
// The results of a warp operation, once all its lanes have reached it.
#pragma once

#include <array>

#include "tuner/device/cpu/prelude/abi.h"

namespace tune::cpu {

struct WarpValues {
  std::array<unsigned long long, tune_cpu::kWarpSize> value;
  std::array<unsigned long long, tune_cpu::kWarpSize> result;
  std::array<unsigned, tune_cpu::kWarpSize> source;
};

// Fills in `result` of the lanes that have arrived. A lane that reads from one that has not gets
// its own value.
void Resolve(tune_cpu::WarpKind kind, unsigned arrived, WarpValues& values);

}  // namespace tune::cpu
