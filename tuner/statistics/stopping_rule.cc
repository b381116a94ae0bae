// SPDX-License-Identifier: Apache-2.0
#include "tuner/statistics/stopping_rule.h"

#include <algorithm>

#include "tuner/statistics/median.h"

namespace tune {
namespace {

constexpr size_t kLeastSamples = 3;
// The interval is computed again when the samples have grown by an eighth: sorting them after each
// one would cost more than a short kernel.
constexpr size_t kGrowth = 8;

}  // namespace

StoppingRule::StoppingRule(const SamplePolicy& policy)
    : policy_(policy),
      next_check_(std::max(kLeastSamples, static_cast<size_t>(std::max(policy.samples_min, 0)))) {}

void StoppingRule::Add(double sample_ns) {
  samples_ns_.push_back(sample_ns);
  total_ns_ += sample_ns;
  fastest_ns_ = std::min(fastest_ns_, sample_ns);
  const size_t count = samples_ns_.size();
  if (count < next_check_) return;
  next_check_ = count + std::max<size_t>(1, count / kGrowth);
  precise_ = EstimateMedian(samples_ns_).precision() <= policy_.precision;
}

StopReason StoppingRule::Decide() const {
  const size_t count = samples_ns_.size();
  if (count < kLeastSamples) return StopReason::kContinue;
  // The fastest sample decides: one slow start must not condemn a config.
  if (policy_.rival_latency_ns > 0 && policy_.hopeless_ratio > 0 &&
      fastest_ns_ > policy_.hopeless_ratio * policy_.rival_latency_ns) {
    return StopReason::kHopeless;
  }
  if (precise_) return StopReason::kPrecise;
  if (total_ns_ >= policy_.seconds_max * 1e9) return StopReason::kBudget;
  if (count >= static_cast<size_t>(std::max(policy_.samples_max, 1))) return StopReason::kBudget;
  return StopReason::kContinue;
}

}  // namespace tune
