// SPDX-License-Identifier: Apache-2.0
// Differential evolution over digits. The best member plus a scaled difference of two others, mixed
// with a member, challenges that member. Source: Storn, Price, "Differential evolution - a simple
// and efficient heuristic for global optimization over continuous spaces", Journal of Global
// Optimization, 1997 (the scheme best/1/bin).
#include <cmath>
#include <unordered_map>

#include "tuner/strategies/digit_search.h"

namespace tune {
namespace {

constexpr size_t kPopulation = 16;
constexpr double kScaleMin = 0.5;  // drawn for each challenger, up to 1
constexpr double kCrossover = 0.7;

struct Member {
  double cost = 0;
  std::vector<uint16_t> digits;
};

class DifferentialEvolution : public DigitSearch {
 public:
  explicit DifferentialEvolution(const StrategyInput& input) : DigitSearch(input) {}

 private:
  std::optional<uint64_t> Propose() override {
    challenged_now_.reset();
    if (members_.size() < kPopulation) return std::nullopt;
    const size_t target = next_++ % kPopulation;
    const Member& best =
        *std::min_element(members_.begin(), members_.end(),
                          [](const Member& a, const Member& b) { return a.cost < b.cost; });
    const Member& plus = members_[random().Below(kPopulation)];
    const Member& minus = members_[random().Below(kPopulation)];
    const double scale = kScaleMin + (1 - kScaleMin) * random().Uniform();
    const size_t always = random().Below(best.digits.size());
    std::vector<int64_t> challenger;
    for (size_t i = 0; i < best.digits.size(); ++i) {
      if (i != always && !random().Chance(kCrossover)) {
        challenger.push_back(members_[target].digits[i]);
        continue;
      }
      const double step = scale * (static_cast<double>(plus.digits[i]) - minus.digits[i]);
      // A fraction of a digit becomes a whole one by chance. Otherwise small lists would never
      // change.
      challenger.push_back(
          static_cast<int64_t>(std::floor(best.digits[i] + step + random().Uniform())));
    }
    challenged_now_ = target;
    return Repair(std::move(challenger));
  }

  void Asked(uint64_t index) override {
    if (challenged_now_.has_value()) challenged_[index] = *challenged_now_;
    challenged_now_.reset();
  }

  void Learned(const Observation& observation) override {
    Member member = {CostOf(observation), Digits(observation.index)};
    const auto challenged = challenged_.find(observation.index);
    if (members_.size() < kPopulation) {
      members_.push_back(std::move(member));
    } else if (challenged != challenged_.end() && member.cost < members_[challenged->second].cost) {
      members_[challenged->second] = std::move(member);
    }
    if (challenged != challenged_.end()) challenged_.erase(challenged);
  }

  std::vector<Member> members_;
  size_t next_ = 0;
  std::optional<size_t> challenged_now_;             // by what is being proposed
  std::unordered_map<uint64_t, size_t> challenged_;  // by config in flight
};

}  // namespace

std::unique_ptr<Strategy> MakeDifferentialEvolution(const StrategyInput& input) {
  return std::make_unique<DifferentialEvolution>(input);
}

}  // namespace tune
