// SPDX-License-Identifier: Apache-2.0
// The default: the surrogate with two hedges. All parts learn all results. With a prior, a second
// surrogate without it chooses too: if results contradict the prior, and most of the time once the
// prior's best configs had their chance. After many results without an improvement, a local search
// makes some of the choices. If the model is right, there is nothing left to find by then; if it is
// wrong, the local search does not depend on it.
#include <algorithm>
#include <memory>
#include <utility>

#include "tuner/strategies/local_search.h"
#include "tuner/strategies/search.h"
#include "tuner/strategies/surrogate.h"

namespace tune {
namespace {

// After so many results without an improvement the walk makes this share of the choices.
constexpr size_t kStalled = 100;
constexpr double kWalkShare = 0.25;
// With a slope of this much or more the prior keeps every choice. Below, it loses choices by
// chance, in proportion, once so many configs are known.
constexpr double kSlopeTrusted = 0.5;
constexpr size_t kPlainFrom = 3;
// The best elsewhere are near the best here, and seldom the best. Up to so many known configs the
// prior may make every choice. From then on it makes at most a third, and less as more configs are
// known.
constexpr size_t kPriorFirst = 10;
constexpr double kPriorShareMax = 1.0 / 3;
constexpr double kPriorShareOverCount = 5;

// The parts neither start with the default config and what won elsewhere nor know of these before
// they are asked for here.
StrategyInput PartOf(const StrategyInput& input) {
  StrategyInput part = input;
  part.options.first.reset();
  part.options.starts.clear();
  part.options.seed = Mix(input.options.seed);
  return part;
}

// The input of parts without a prior of their own: it reaches them as results.
StrategyInput PlainPartOf(const StrategyInput& input) {
  StrategyInput part = PartOf(input);
  part.options.prior.clear();
  return part;
}

class Auto : public Search {
 public:
  explicit Auto(const StrategyInput& input)
      : Search(input),
        model_(PartOf(input)),
        walk_(MakeWalk(PlainPartOf(input), Improvement::kFirst)) {
    if (model_.has_prior()) plain_ = std::make_unique<Surrogate>(PlainPartOf(input));
  }

  std::optional<double> ImprovementChance() const override { return chance_; }

 private:
  std::optional<uint64_t> Propose() override {
    if (since_improvement_ >= kStalled && random().Chance(kWalkShare)) return walk_->Ask();
    Surrogate& model = IsPlainsTurn() ? *plain_ : model_;
    const std::optional<uint64_t> index = model.Ask();
    chance_ = model.ImprovementChance();
    return index;
  }

  bool IsPlainsTurn() {
    if (plain_ == nullptr || known_count() < kPlainFrom) return false;
    double share = model_.prior_slope() / kSlopeTrusted;
    if (known_count() >= kPriorFirst) {
      const double count = static_cast<double>(known_count());
      share = std::min({share, kPriorShareMax, kPriorShareOverCount / count});
    }
    return !random().Chance(share);
  }

  void Asked(uint64_t index) override {
    model_.Pend(index);
    if (plain_ != nullptr) plain_->Pend(index);
    walk_->Pend(index);
  }

  void Learned(const Observation& observation) override {
    model_.Tell(observation);
    if (plain_ != nullptr) plain_->Tell(observation);
    walk_->Tell(observation);
    const bool improved = best().has_value() && best()->index == observation.index;
    since_improvement_ = improved ? 0 : since_improvement_ + 1;
  }

  Surrogate model_;
  std::unique_ptr<Surrogate> plain_;  // only where there is a prior
  std::unique_ptr<Search> walk_;
  size_t since_improvement_ = 0;
  std::optional<double> chance_;
};

}  // namespace

std::unique_ptr<Strategy> MakeAuto(const StrategyInput& input) {
  return std::make_unique<Auto>(input);
}

}  // namespace tune
