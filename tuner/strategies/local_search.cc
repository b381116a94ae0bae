// SPDX-License-Identifier: Apache-2.0
// Local search with restarts. It tries the neighbours of a config and moves to a better one. If
// there is none, it restarts from another config. Best improvement tries all neighbours before it
// moves; first improvement moves at once. Source: Hoos, Stützle, "Stochastic Local Search:
// Foundations and Applications", 2005. A restart is the best of a few configs, which are random or
// perturb the best known: iterated local search, Lourenço, Martin, Stützle, 2003.
#include "tuner/strategies/local_search.h"

#include <unordered_set>

#include "tuner/strategies/digit_search.h"

namespace tune {
namespace {

constexpr size_t kStartDraws = 8;
constexpr double kPerturbChance = 0.5;
constexpr int kPerturbDigits = 3;

class LocalSearch : public DigitSearch {
 public:
  LocalSearch(const StrategyInput& input, Improvement improvement)
      : DigitSearch(input), improvement_(improvement) {}

 private:
  std::optional<uint64_t> Propose() override {
    if (starts_ < kStartDraws) return Start();
    if (!at_.has_value()) return std::nullopt;  // the start is in flight still
    if (const auto neighbour = UnknownNeighbour(at_->index, Neighbourhood::kHamming)) {
      around_.insert(*neighbour);
      return neighbour;
    }
    if (waiting_ > 0) return std::nullopt;  // it may yet move
    if (improvement_ == Improvement::kBest && better_.has_value()) {
      Move(*better_);
      return Propose();
    }
    Restart();
    return Start();
  }

  std::optional<uint64_t> Start() {
    ++starts_;
    if (perturb_ && best().has_value()) {
      const std::vector<uint16_t>& from = Digits(best()->index);
      std::vector<int64_t> digits(from.begin(), from.end());
      for (int i = 0; i < kPerturbDigits; ++i) {
        const size_t param = random().Below(digits.size());
        digits[param] = static_cast<int64_t>(random().Below(space().radix(param)));
      }
      return Repair(std::move(digits));
    }
    return RandomUnknown();
  }

  void Asked(uint64_t) override { ++waiting_; }

  void Learned(const Observation& observation) override {
    if (waiting_ > 0) --waiting_;
    if (observation.outcome != Outcome::kOk) return;
    if (!at_.has_value()) {
      at_ = observation;
      return;
    }
    if (observation.latency_ns >= at_->latency_ns) return;
    if (!around_.contains(observation.index) || improvement_ == Improvement::kFirst) {
      Move(observation);
    } else if (!better_.has_value() || observation.latency_ns < better_->latency_ns) {
      better_ = observation;
    }
  }

  void Move(const Observation& observation) {
    at_ = observation;
    better_.reset();
    around_.clear();
  }

  void Restart() {
    at_.reset();
    better_.reset();
    around_.clear();
    starts_ = 0;
    perturb_ = random().Chance(kPerturbChance);
  }

  const Improvement improvement_;
  std::optional<Observation> at_;
  std::optional<Observation> better_;    // of the neighbours
  std::unordered_set<uint64_t> around_;  // neighbours asked for
  size_t starts_ = 0;
  size_t waiting_ = 0;
  bool perturb_ = false;
};

}  // namespace

std::unique_ptr<Search> MakeWalk(const StrategyInput& input, Improvement improvement) {
  return std::make_unique<LocalSearch>(input, improvement);
}

std::unique_ptr<Strategy> MakeLocalSearchBest(const StrategyInput& input) {
  return MakeWalk(input, Improvement::kBest);
}

std::unique_ptr<Strategy> MakeLocalSearchFirst(const StrategyInput& input) {
  return MakeWalk(input, Improvement::kFirst);
}

}  // namespace tune
