// SPDX-License-Identifier: Apache-2.0
// The default: the surrogate, hedged twice by parts that know all results too. Where a prior is
// given, a surrogate that knows nothing of it chooses too: where the prior is not borne out, and
// most of the time once its best had their chance. Once nothing better is found for long, a local
// search chooses now and then. Where the model is right there is nothing left to find by then;
// where it is wrong, the walk does not believe it.
#include <algorithm>
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
// A prior that explains half of what it says keeps the choice; below that it loses it by chance, in
// proportion, once this many configs are known.
constexpr double kSlopeTrusted = 0.5;
constexpr size_t kPlainFrom = 3;
// The best elsewhere are near the best here, seldom the best. Up to so many configs the prior may
// make every choice; then a third at most, and less as the configs known grow.
constexpr size_t kPriorFirst = 10;
constexpr double kPriorShareMax = 1.0 / 3;
constexpr double kPriorShareOverCount = 5;

// The parts neither start with the default config nor know of it before it is asked for here.
StrategyInput PartOf(const StrategyInput& input) {
  StrategyInput part = input;
  part.options.first.reset();
  part.options.seed = Mix(input.options.seed);
  return part;
}

// What the prior says reaches these as results.
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
