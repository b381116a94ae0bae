// SPDX-License-Identifier: Apache-2.0
// The base of strategies that learn. It asks for the default config first, then for the given
// starts and the best configs of the prior, then for what Propose() returns. If a proposal is known
// already, it asks for a random unknown config instead, so that each config is proposed once and
// the search ends only when the space is exhausted. A subclass implements Propose() and Learned().
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_set>
#include <vector>

#include "tuner/space/space.h"
#include "tuner/strategies/random_source.h"
#include "tuner/strategies/strategies.h"

namespace tune {

class Search : public Strategy {
 public:
  // After the default config and the starts given, the best configs of the prior are asked for, at
  // most `prior_starts`.
  explicit Search(const StrategyInput& input, size_t prior_starts = 0);

  std::optional<uint64_t> Ask() final;
  void Tell(const Observation& observation) final;
  // Notes that another part has asked for a config. It is not proposed here; its result will be
  // told.
  void Pend(uint64_t index);

 protected:
  // The next config. If this is known already, or nothing, Ask() takes a random unknown one.
  virtual std::optional<uint64_t> Propose() = 0;
  // Called for every ask, the default config and random ones included.
  virtual void Asked(uint64_t index) { (void)index; }
  // Called once for each result, also of a config that was never asked for.
  virtual void Learned(const Observation& observation) = 0;

  // Whether the config was asked for or told.
  bool IsKnown(uint64_t index) const { return known_.contains(index); }
  bool IsExhausted() const { return known_.size() >= space_.size(); }
  // A valid config, known or not. All are equally likely.
  uint64_t RandomConfig() {
    return space_.Sample([this] { return random_.Next(); });
  }
  // A config that is not known. Each has about the same chance. nullopt if there is none.
  std::optional<uint64_t> RandomUnknown();
  // The digits of a config, valid until the next call.
  const std::vector<uint16_t>& Digits(uint64_t index);

  const Space& space() const { return space_; }
  const StrategyOptions& options() const { return options_; }
  RandomSource& random() { return random_; }
  size_t known_count() const { return known_.size(); }
  size_t in_flight() const { return in_flight_.size(); }
  // The best result, if one was ok.
  const std::optional<Observation>& best() const { return best_; }

 private:
  const Space& space_;
  const StrategyOptions options_;
  RandomSource random_;
  const Permutation order_;  // in which the rest of the space is searched for unknown configs
  uint64_t order_position_ = 0;
  bool first_offered_ = false;
  std::vector<uint64_t> starts_;  // the first to try last
  std::unordered_set<uint64_t> known_;
  std::unordered_set<uint64_t> in_flight_;
  std::unordered_set<uint64_t> told_;
  std::optional<Observation> best_;
  std::vector<uint16_t> digits_;
};

}  // namespace tune
