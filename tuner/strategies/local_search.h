// SPDX-License-Identifier: Apache-2.0
// Local search as a part of other strategies. Internal to tuner/strategies.
#pragma once

#include <memory>

#include "tuner/strategies/search.h"

namespace tune {

// When a walk moves: to the best once all neighbours are known, or at once to the first better one.
enum class Improvement { kBest, kFirst };

std::unique_ptr<Search> MakeWalk(const StrategyInput& input, Improvement improvement);

}  // namespace tune
