// SPDX-License-Identifier: Apache-2.0
#include "tuner/strategies/search.h"

#include <algorithm>
#include <utility>

namespace tune {
namespace {

// Until most configs are known, random draws find an unknown one fast. After that the permutation
// does.
constexpr int kDraws = 16;
// A space too large to be known is not gone through by the permutation. If so many draws fail, it
// is taken to have no unknown config.
constexpr int kDrawsInexact = 4096;

// The best last. A config that several sources have counts by the best of its latencies.
std::vector<uint64_t> BestOfPrior(const StrategyInput& input, size_t count) {
  std::vector<std::pair<double, uint64_t>> ranked;
  if (count == 0) return {};
  for (const PriorObservation& observation : input.options.prior) {
    const bool is_ok = observation.outcome == Outcome::kOk && observation.relative_latency > 0;
    if (!is_ok || !(observation.weight > 0)) continue;
    const std::optional<uint64_t> index = input.space.IndexOf(observation.config);
    if (index.has_value()) ranked.emplace_back(observation.relative_latency, *index);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<uint64_t> best;
  for (const auto& [ratio, index] : ranked) {
    if (best.size() == count) break;
    if (std::find(best.begin(), best.end(), index) == best.end()) best.push_back(index);
  }
  std::reverse(best.begin(), best.end());
  return best;
}

}  // namespace

Search::Search(const StrategyInput& input, size_t prior_starts)
    : space_(input.space),
      options_(input.options),
      random_(input.options.seed),
      order_(input.space.size(), input.options.seed),
      starts_(BestOfPrior(input, prior_starts)),
      digits_(input.space.params().size()) {
  starts_.insert(starts_.end(), options_.starts.rbegin(), options_.starts.rend());
}

std::optional<uint64_t> Search::Ask() {
  if (IsExhausted()) return std::nullopt;
  std::optional<uint64_t> index;
  if (options_.first.has_value() && !first_offered_) {
    first_offered_ = true;
    if (!IsKnown(*options_.first)) index = options_.first;
  }
  while (!index.has_value() && !starts_.empty()) {
    if (!IsKnown(starts_.back())) index = starts_.back();
    starts_.pop_back();
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
  // Configs that the permutation has passed are known, and stay so.
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
