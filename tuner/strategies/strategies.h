// SPDX-License-Identifier: Apache-2.0
// The strategies by name. Adding one is adding a file, a line here and a line in registry.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "tuner/space/space.h"
#include "tuner/strategy.h"

namespace tune {

// What every strategy is made from; see MakeStrategy.
struct StrategyInput {
  const Space& space;
  uint64_t seed = 0;
  std::optional<uint64_t> first;
};

// Every config, in the space's order.
std::unique_ptr<Strategy> MakeExhaustive(const StrategyInput& input);
// Every config, in an order that only the seed decides.
std::unique_ptr<Strategy> MakeRandom(const StrategyInput& input);

}  // namespace tune
