// SPDX-License-Identifier: Apache-2.0
#include "tuner/sweep/stop_rules.h"

#include <numeric>

namespace tune {

std::string ToText(SweepEnd reason) {
  switch (reason) {
    case SweepEnd::kNone:
      return "it goes on";
    case SweepEnd::kStrategyDone:
      return "the strategy had no more configs";
    case SweepEnd::kTrials:
      return "the budget of trials was spent";
    case SweepEnd::kTime:
      return "the budget of time was spent";
    case SweepEnd::kNoImprovement:
      return "too many trials in a row brought no improvement";
    case SweepEnd::kImprovementUnlikely:
      return "an improvement had become unlikely";
    case SweepEnd::kCancelled:
      return "it was cancelled";
  }
  return "unknown";
}

StopRules::StopRules(const SweepBudget& budget, absl::Time start)
    : budget_(budget), deadline_(start + budget.time) {}

void StopRules::Finished(std::optional<double> latency_ns) {
  ++finished_;
  ++since_improvement_;
  if (!latency_ns.has_value()) return;
  if (!best_ns_.has_value() || *latency_ns < *best_ns_ * (1 - kImprovementRatioMin)) {
    since_improvement_ = 0;
    best_ns_ = latency_ns;
  }
}

void StopRules::Started(std::optional<double> improvement_chance) {
  const double chance = improvement_chance.value_or(1 / (static_cast<double>(finished_) + 1));
  chances_[chance_count_++ % kChanceWindow] = chance;
}

bool StopRules::IsImprovementUnlikely() const {
  if (budget_.improvement_chance_min <= 0 || chance_count_ < kChanceWindow) return false;
  if (!best_ns_.has_value()) return false;  // nothing works yet: there is all to gain
  const double sum = std::accumulate(chances_.begin(), chances_.end(), 0.0);
  return sum / kChanceWindow < budget_.improvement_chance_min;
}

SweepEnd StopRules::Check(uint64_t in_flight, absl::Time now) const {
  if (budget_.trials > 0 && finished_ + in_flight >= budget_.trials) return SweepEnd::kTrials;
  if (now >= deadline_) return SweepEnd::kTime;
  if (budget_.trials_without_improvement > 0 && best_ns_.has_value() &&
      since_improvement_ >= budget_.trials_without_improvement) {
    return SweepEnd::kNoImprovement;
  }
  if (IsImprovementUnlikely()) return SweepEnd::kImprovementUnlikely;
  return SweepEnd::kNone;
}

}  // namespace tune
