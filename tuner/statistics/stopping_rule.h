// SPDX-License-Identifier: Apache-2.0
// When a trial has enough samples.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "tuner/sample_policy.h"

namespace tune {

enum class StopReason { kContinue, kPrecise, kHopeless, kBudget };

// Feed samples, then ask whether to go on. It stops when one of these holds: from samples_min on,
// the median's 95 % interval is narrow enough; from the third sample on, even the fastest is far
// slower than the rival; with at least three samples, the samples or seconds are used up. Not
// thread-safe.
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
