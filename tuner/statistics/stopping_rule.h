// SPDX-License-Identifier: Apache-2.0
// When a trial has samples enough.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "tuner/sample_policy.h"

namespace tune {

enum class StopReason { kContinue, kPrecise, kHopeless, kBudget };

// Feed samples, ask whether to go on. Stops when the median's 95 % interval is narrow enough (from
// samples_min on), when even the fastest sample is far slower than the rival (from the third on),
// or when the samples or seconds are used up (with three samples at least). Not thread-safe.
class StoppingRule {
 public:
  explicit StoppingRule(const SamplePolicy& policy);
  void Add(double sample_ns);
  StopReason Decide() const;
  const std::vector<double>& samples_ns() const { return samples_ns_; }

 private:
  const SamplePolicy policy_;
  std::vector<double> samples_ns_;
  double total_ns_ = 0;
  double fastest_ns_ = std::numeric_limits<double>::infinity();
  size_t next_check_;  // how many samples to have before the interval is computed again
  bool precise_ = false;
};

}  // namespace tune
