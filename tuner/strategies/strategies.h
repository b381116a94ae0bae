// SPDX-License-Identifier: Apache-2.0
// The strategies by name. To add one, add a file, a line here and a line in registry.cc.
#pragma once

#include <memory>

#include "tuner/space/space.h"
#include "tuner/strategies/strategy.h"

namespace tune {

// The input of every strategy's constructor; see MakeStrategy.
struct StrategyInput {
  const Space& space;
  StrategyOptions options;
};

// Every config, in the space's order.
std::unique_ptr<Strategy> MakeExhaustive(const StrategyInput& input);
// Rounds in which each value of each param is tried about equally often.
std::unique_ptr<Strategy> MakeRandom(const StrategyInput& input);
// Rounds in which each value of each param is tried about equally often.
std::unique_ptr<Strategy> MakeLatinHypercube(const StrategyInput& input);
// To better neighbours, with restarts.
std::unique_ptr<Strategy> MakeLocalSearchBest(const StrategyInput& input);
std::unique_ptr<Strategy> MakeLocalSearchFirst(const StrategyInput& input);
std::unique_ptr<Strategy> MakeSimulatedAnnealing(const StrategyInput& input);
std::unique_ptr<Strategy> MakeGenetic(const StrategyInput& input);
std::unique_ptr<Strategy> MakeDifferentialEvolution(const StrategyInput& input);
std::unique_ptr<Strategy> MakeParticleSwarm(const StrategyInput& input);
// The default.
std::unique_ptr<Strategy> MakeAuto(const StrategyInput& input);
// The config that a Gaussian process of the log of the latency expects to improve most on the best.
std::unique_ptr<Strategy> MakeSurrogate(const StrategyInput& input);

}  // namespace tune
