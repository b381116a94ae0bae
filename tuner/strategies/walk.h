// SPDX-License-Identifier: Apache-2.0
// A strategy that learns nothing: it goes through the space in a fixed order.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_set>
#include <utility>

#include "tuner/strategies/strategies.h"

namespace tune {

class Walk : public Strategy {
 public:
  // `order` maps positions to indices, both below the space's size, one to one.
  Walk(const StrategyInput& input, std::function<uint64_t(uint64_t)> order)
      : space_(input.space),
        size_(input.space.size()),
        first_(input.options.first),
        order_(std::move(order)) {}

  std::optional<uint64_t> Ask() override {
    if (first_.has_value() && !first_offered_) {
      first_offered_ = true;
      if (known_.count(*first_) == 0) return Propose(*first_);
    }
    while (position_ < size_) {
      const uint64_t index = order_(position_++);
      if (index == first_ || known_.count(index) != 0) continue;
      if (space_.Contains(index)) return Propose(index);
    }
    return std::nullopt;
  }

  void Tell(const Observation& observation) override {
    if (in_flight_.erase(observation.index) == 0) known_.insert(observation.index);
  }

 private:
  uint64_t Propose(uint64_t index) {
    in_flight_.insert(index);
    return index;
  }

  const Space& space_;
  const uint64_t size_;
  const std::optional<uint64_t> first_;
  const std::function<uint64_t(uint64_t)> order_;
  bool first_offered_ = false;
  uint64_t position_ = 0;
  std::unordered_set<uint64_t> in_flight_;
  std::unordered_set<uint64_t> known_;  // told without having been asked
};

}  // namespace tune
