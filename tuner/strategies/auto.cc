// SPDX-License-Identifier: Apache-2.0
// The default: the surrogate, hedged by a local search that shares what both find. Where the
// model is right the hedge costs little; where it is wrong, the walk does not know.
#include <cstdlib>
#include <memory>
#include <utility>

#include "tuner/strategies/search.h"
#include "tuner/strategies/surrogate.h"

namespace tune {
namespace {

double Knob(const char* n, double d) { const char* v = std::getenv(n); return v ? std::atof(v) : d; }
// The model alone chooses this many at first: a walk has little to give to a short search.
constexpr size_t kModelAlone = 40;

// The parts neither start with the default config nor know of it before it is asked for here.
StrategyInput PartOf(const StrategyInput& input) {
  StrategyInput part = input;
  part.options.first.reset();
  part.options.seed = Mix(input.options.seed);
  return part;
}

class Auto : public Search {
 public:
  explicit Auto(const StrategyInput& input)
      : Search(input),
        model_(PartOf(input)),
        walk_(MakeLocalSearchFirst(PartOf(input))) {}

  std::optional<double> ImprovementChance() const override { return chance_; }

 private:
  std::optional<uint64_t> Propose() override {
    static const double share = Knob("SHARE", 0.1), alone = Knob("ALONE", kModelAlone);
    const bool walk = known_count() >= alone && random().Chance(share);
    Strategy& chosen = walk ? *walk_ : model_;
    const std::optional<uint64_t> index = chosen.Ask();
    if (!walk) chance_ = model_.ImprovementChance();
    return index;
  }

  void Asked(uint64_t index) override {
    model_.Pend(index);
    static_cast<Search&>(*walk_).Pend(index);
  }

  void Learned(const Observation& observation) override {
    model_.Tell(observation);
    walk_->Tell(observation);
  }

  Surrogate model_;
  std::unique_ptr<Strategy> walk_;
  std::optional<double> chance_;
};

}  // namespace

std::unique_ptr<Strategy> MakeAuto(const StrategyInput& input) {
  return std::make_unique<Auto>(input);
}

}  // namespace tune
