// SPDX-License-Identifier: Apache-2.0
#include "tuner/strategies/walk.h"

namespace tune {

std::unique_ptr<Strategy> MakeExhaustive(const StrategyInput& input) {
  return std::make_unique<Walk>(input, [](uint64_t position) { return position; });
}

}  // namespace tune
