// SPDX-License-Identifier: Apache-2.0
// The base of strategies that move in digits, the positions of values in their params' lists. A
// move may end at a config that is invalid or known; Repair rounds it to a near one that is valid
// and unknown.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "tuner/strategies/search.h"

namespace tune {

class DigitSearch : public Search {
 public:
  explicit DigitSearch(const StrategyInput& input) : Search(input, kPriorStarts) {}

 protected:
  // The config with these digits, or else a valid one that differs in few of them. nullopt if the
  // configs near it are invalid or known. Digits outside their lists are clamped.
  std::optional<uint64_t> Repair(std::vector<int64_t> digits) {
    std::vector<uint16_t> valid(digits.size());
    for (size_t i = 0; i < digits.size(); ++i) {
      const auto last = static_cast<int64_t>(space().radix(i)) - 1;
      valid[i] = static_cast<uint16_t>(std::clamp<int64_t>(digits[i], 0, last));
    }
    if (const auto index = space().IndexOfDigits(valid); index && !IsKnown(*index)) return index;
    // Changes one digit, then two, and so on, always from the start.
    for (int changes = 1; changes <= kRepairChanges; ++changes) {
      for (int draw = 0; draw < kRepairDraws; ++draw) {
        std::vector<uint16_t> near = valid;
        for (int change = 0; change < changes; ++change) {
          const size_t param = random().Below(near.size());
          near[param] = static_cast<uint16_t>(random().Below(space().radix(param)));
        }
        if (const auto index = space().IndexOfDigits(near); index && !IsKnown(*index)) return index;
      }
    }
    return std::nullopt;
  }

  // A random one of the valid neighbours that are not known.
  std::optional<uint64_t> UnknownNeighbour(uint64_t index, Neighbourhood neighbourhood) {
    space().Neighbours(index, neighbourhood, neighbours_);
    std::erase_if(neighbours_, [&](uint64_t neighbour) { return IsKnown(neighbour); });
    if (neighbours_.empty()) return std::nullopt;
    return neighbours_[random().Below(neighbours_.size())];
  }

 private:
  static constexpr size_t kPriorStarts = 8;
  static constexpr int kRepairChanges = 4;
  static constexpr int kRepairDraws = 12;

  std::vector<uint64_t> neighbours_;
};

// Infinite for what did not work. That is worse than anything that did.
inline double CostOf(const Observation& observation) {
  if (observation.outcome != Outcome::kOk) return std::numeric_limits<double>::infinity();
  return observation.latency_ns;
}

}  // namespace tune
