// SPDX-License-Identifier: Apache-2.0
// When a trial has samples enough.
#pragma once

#include <vector>

#include "tuner/device/runner.h"

namespace tune {

enum class StopReason { kContinue, kPrecise, kHopeless, kBudget };

// Feed samples, ask whether to go on. Stops when the median's 95 % interval is narrow enough, when
// the config is far slower than its rival, or when the samples or seconds are used up.
class StoppingRule {
 public:
  explicit StoppingRule(const SamplePolicy& policy) : policy_(policy) {}
  void Add(double sample_ns);
  StopReason Decide() const;
  const std::vector<double>& samples_ns() const { return samples_ns_; }

 private:
  const SamplePolicy policy_;
  std::vector<double> samples_ns_;
  double total_ns_ = 0;
};

}  // namespace tune
