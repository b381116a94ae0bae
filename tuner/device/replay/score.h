// SPDX-License-Identifier: Apache-2.0
// How good a strategy is on a recorded space, in figures that others use too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tuner/device/replay/recording.h"

namespace tune::replay {

// The median over all orders of the best latency after `evaluations` draws without replacement from
// a recording, failed configs included: exact, from the hypergeometric distribution. Infinite if
// most orders have found none that is ok by then.
double RandomMedianNs(const Recording& recording, uint64_t evaluations);

// The score of Willemsen et al., "A methodology for comparing optimization algorithms for
// auto-tuning", Future Generation Computer Systems, 2024, over evaluations: 0 is random search, 1
// the optimum from the first evaluation on; there is no lower bound. The rank of the best so far is
// averaged over the runs, which punishes a single bad run hard.
class MethodologyScore {
 public:
  // REQUIRES: a trial of the recording is ok.
  explicit MethodologyScore(const Recording& recording);

  // How many evaluations a run must have: random search then has closed 95 % of the gap from the
  // median to the optimum.
  uint64_t evaluations() const { return end_; }
  // The score of runs, each given as the best latency after each evaluation (infinite before the
  // first that is ok). A run that ended early keeps its last value. REQUIRES: at least one run.
  double Of(absl::Span<const std::vector<double>> runs) const;

 private:
  uint64_t EvaluationsTo(double fraction) const;
  double BaselineNs(uint64_t evaluations) const;

  std::vector<double> latencies_ns_;  // of the trials that were ok, best first
  uint64_t start_ = 1;
  uint64_t end_ = 1;
};

// Linear interpolation between order statistics; `sorted` is in ascending order and not empty.
double QuantileOf(absl::Span<const double> sorted, double quantile);

}  // namespace tune::replay
