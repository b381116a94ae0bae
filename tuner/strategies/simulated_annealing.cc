// SPDX-License-Identifier: Apache-2.0
// Simulated annealing: a walk to random neighbours. It accepts a slower one by chance. The chance
// falls with time, and with how much slower the neighbour is. Source: Kirkpatrick, Gelatt, Vecchi,
// "Optimization by simulated annealing", Science, 1983.
#include <cmath>
#include <unordered_map>

#include "tuner/strategies/digit_search.h"

namespace tune {
namespace {

constexpr size_t kWalkDraws = 10;  // the walk starts from the best of these
constexpr double kHot = 0.3;       // accepts a config 30 % slower with a chance of 1 / e
constexpr double kCold = 0.003;
constexpr uint64_t kCoolTrials = 200;  // unless the budget is known
constexpr double kAdjacentChance = 0.5;

class SimulatedAnnealing : public DigitSearch {
 public:
  explicit SimulatedAnnealing(const StrategyInput& input)
      : DigitSearch(input),
        cool_trials_(options().budget_trials > 0 ? options().budget_trials : kCoolTrials) {}

 private:
  std::optional<uint64_t> Propose() override {
    if (known_count() < kWalkDraws || !at_.has_value()) return std::nullopt;
    const bool adjacent = random().Chance(kAdjacentChance);
    std::optional<uint64_t> next;
    if (adjacent) next = UnknownNeighbour(at_->index, Neighbourhood::kAdjacent);
    if (!next.has_value()) next = UnknownNeighbour(at_->index, Neighbourhood::kHamming);
    if (!next.has_value()) at_.reset();  // all around is known: start elsewhere
    return next;
  }

  // From hot to cold once in each period, so that a long search is a sequence of annealings.
  double Temperature() const {
    const double progress =
        static_cast<double>(told_ % cool_trials_) / static_cast<double>(cool_trials_);
    return kHot * std::pow(kCold / kHot, progress);
  }

  void Learned(const Observation& observation) override {
    ++told_;
    if (observation.outcome != Outcome::kOk) return;
    if (!at_.has_value() || known_count() <= kWalkDraws) {
      if (!at_.has_value() || observation.latency_ns < at_->latency_ns) at_ = observation;
      return;
    }
    const double slower = std::log(observation.latency_ns / at_->latency_ns);
    if (slower <= 0 || random().Chance(std::exp(-slower / Temperature()))) at_ = observation;
  }

  const uint64_t cool_trials_;
  uint64_t told_ = 0;
  std::optional<Observation> at_;
};

}  // namespace

std::unique_ptr<Strategy> MakeSimulatedAnnealing(const StrategyInput& input) {
  return std::make_unique<SimulatedAnnealing>(input);
}

}  // namespace tune
