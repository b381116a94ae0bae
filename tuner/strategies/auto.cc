// SPDX-License-Identifier: Apache-2.0
// The default: the surrogate, hedged by a local search once the surrogate stops finding better.
// Both know all results. Where the model is right the hedge costs nothing, as there is nothing left
// to find; where it is wrong, the walk does not believe it.
#include <memory>
#include <utility>

#include "tuner/strategies/local_search.h"
#include "tuner/strategies/search.h"
#include "tuner/strategies/surrogate.h"

namespace tune {
namespace {

// Results without an improvement after which every so many-th choice is the walk's.
constexpr size_t kStalled = 100;
constexpr double kWalkShare = 0.25;

// The parts neither start with the default config nor know of it before it is asked for here.
StrategyInput PartOf(const StrategyInput& input) {
  StrategyInput part = input;
  part.options.first.reset();
  part.options.seed = Mix(input.options.seed);
  return part;
}

// What the prior says reaches the walk as results.
StrategyInput WalkOf(const StrategyInput& input) {
  StrategyInput walk = PartOf(input);
  walk.options.prior.clear();
  return walk;
}

class Auto : public Search {
 public:
  explicit Auto(const StrategyInput& input)
      : Search(input), model_(PartOf(input)), walk_(MakeWalk(WalkOf(input), Improvement::kFirst)) {}

  std::optional<double> ImprovementChance() const override { return chance_; }

 private:
  std::optional<uint64_t> Propose() override {
    if (since_improvement_ >= kStalled && random().Chance(kWalkShare)) return walk_->Ask();
    const std::optional<uint64_t> index = model_.Ask();
    chance_ = model_.ImprovementChance();
    return index;
  }

  void Asked(uint64_t index) override {
    model_.Pend(index);
    walk_->Pend(index);
  }

  void Learned(const Observation& observation) override {
    model_.Tell(observation);
    walk_->Tell(observation);
    const bool improved = best().has_value() && best()->index == observation.index;
    since_improvement_ = improved ? 0 : since_improvement_ + 1;
  }

  Surrogate model_;
  std::unique_ptr<Search> walk_;
  size_t since_improvement_ = 0;
  std::optional<double> chance_;
};

}  // namespace

std::unique_ptr<Strategy> MakeAuto(const StrategyInput& input) {
  return std::make_unique<Auto>(input);
}

}  // namespace tune
