// SPDX-License-Identifier: Apache-2.0
// Random search without replacement. The order is a pseudo-random permutation that is computed, not
// stored, so a space of any size costs nothing.
#include "tuner/strategies/random_source.h"
#include "tuner/strategies/walk.h"

namespace tune {

std::unique_ptr<Strategy> MakeRandom(const StrategyInput& input) {
  return std::make_unique<Walk>(input, Permutation(input.space.size(), input.options.seed));
}

}  // namespace tune
