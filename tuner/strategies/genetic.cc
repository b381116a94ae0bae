// SPDX-License-Identifier: Apache-2.0
// A steady-state genetic algorithm. A tournament chooses the parents. Their child is mixed param by
// param, mutated, and replaces the worst. There are no generations to wait for, so any number may
// be in flight. Source: Whitley, "The GENITOR algorithm and selection pressure", ICGA 1989.
#include "tuner/strategies/digit_search.h"

namespace tune {
namespace {

constexpr size_t kParents = 20;
constexpr size_t kTournament = 3;
constexpr double kAdjacentMutation = 0.5;  // of mutations that step to the next value

struct Individual {
  double cost = 0;
  std::vector<uint16_t> digits;
};

class Genetic : public DigitSearch {
 public:
  explicit Genetic(const StrategyInput& input) : DigitSearch(input) {}

 private:
  std::optional<uint64_t> Propose() override {
    if (members_.size() < kParents) return std::nullopt;
    const Individual& mother = Select();
    const Individual& father = Select();
    std::vector<int64_t> child;
    for (size_t i = 0; i < mother.digits.size(); ++i) {
      child.push_back(random().Chance(0.5) ? mother.digits[i] : father.digits[i]);
    }
    const double mutation = 1.0 / static_cast<double>(child.size());
    for (size_t i = 0; i < child.size(); ++i) {
      if (!random().Chance(mutation)) continue;
      if (random().Chance(kAdjacentMutation)) {
        child[i] += random().Chance(0.5) ? 1 : -1;
      } else {
        child[i] = static_cast<int64_t>(random().Below(space().radix(i)));
      }
    }
    return Repair(std::move(child));
  }

  const Individual& Select() {
    const Individual* winner = &members_[random().Below(members_.size())];
    for (size_t i = 1; i < kTournament; ++i) {
      const Individual& other = members_[random().Below(members_.size())];
      if (other.cost < winner->cost) winner = &other;
    }
    return *winner;
  }

  void Learned(const Observation& observation) override {
    Individual member = {CostOf(observation), Digits(observation.index)};
    if (members_.size() < kParents) {
      members_.push_back(std::move(member));
      return;
    }
    const auto worst =
        std::max_element(members_.begin(), members_.end(),
                         [](const Individual& a, const Individual& b) { return a.cost < b.cost; });
    if (member.cost < worst->cost) *worst = std::move(member);
  }

  std::vector<Individual> members_;
};

}  // namespace

std::unique_ptr<Strategy> MakeGenetic(const StrategyInput& input) {
  return std::make_unique<Genetic>(input);
}

}  // namespace tune
