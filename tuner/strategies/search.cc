// SPDX-License-Identifier: Apache-2.0
#include "tuner/strategies/search.h"

namespace tune {
namespace {

// Drawing at random finds an unknown config fast until most are known; the permutation does after.
constexpr int kDraws = 16;
// A space too large to be known is not gone through: as many draws failing means that it is not so
// large after all.
constexpr int kDrawsInexact = 4096;

}  // namespace

Search::Search(const StrategyInput& input)
    : space_(input.space),
      options_(input.options),
      random_(input.options.seed),
      order_(input.space.size(), input.options.seed),
      digits_(input.space.params().size()) {}

std::optional<uint64_t> Search::Ask() {
  if (IsExhausted()) return std::nullopt;
  std::optional<uint64_t> index;
  if (options_.first.has_value() && !first_offered_) {
    first_offered_ = true;
    if (!IsKnown(*options_.first)) index = options_.first;
  }
  if (!index.has_value()) index = Propose();
  if (!index.has_value() || IsKnown(*index)) index = RandomUnknown();
  if (!index.has_value()) return std::nullopt;
  Pend(*index);
  return index;
}

void Search::Pend(uint64_t index) {
  if (!known_.insert(index).second) return;
  in_flight_.insert(index);
  Asked(index);
}

void Search::Tell(const Observation& observation) {
  in_flight_.erase(observation.index);
  known_.insert(observation.index);
  if (!told_.insert(observation.index).second) return;
  if (observation.outcome == Outcome::kOk &&
      (!best_.has_value() || observation.latency_ns < best_->latency_ns)) {
    best_ = observation;
  }
  Learned(observation);
}

std::optional<uint64_t> Search::RandomUnknown() {
  const int draws = space_.exact() ? kDraws : kDrawsInexact;
  for (int draw = 0; draw < draws; ++draw) {
    const uint64_t index = RandomConfig();
    if (!IsKnown(index)) return index;
  }
  if (!space_.exact()) return std::nullopt;
  // What the permutation has passed is known, and stays so.
  while (order_position_ < space_.size()) {
    const uint64_t index = order_(order_position_);
    if (!IsKnown(index)) return index;
    ++order_position_;
  }
  return std::nullopt;
}

const std::vector<uint16_t>& Search::Digits(uint64_t index) {
  space_.DigitsAt(index, absl::MakeSpan(digits_));
  return digits_;
}

}  // namespace tune
