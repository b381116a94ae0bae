// SPDX-License-Identifier: Apache-2.0
// Many runs of a strategy on a recorded space, summed up. Ratios are latencies over the optimum:
// 1 is the optimum.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tuner/device/replay/play.h"
#include "tuner/device/replay/recording.h"

namespace tune::replay {

// The runs' best ratio after some evaluations; infinite where a run had found nothing that is ok.
struct RatioQuartiles {
  double low = 0;
  double median = 0;
  double high = 0;
};

struct RunsSummary {
  std::vector<RatioQuartiles> after;  // after 1, 2, ... evaluations, up to the budget
  double within_5_percent = 0;        // share of the runs whose last best is
  double hit_optimum = 0;
  double overhead_us_median = 0;  // of Ask and Tell, over all trials of all runs
  uint64_t evaluations_median = 0;
};

// A run that ended early keeps its last best. REQUIRES: at least one run.
RunsSummary Summarise(absl::Span<const Played> runs, double optimum_ns, uint64_t budget_trials);

double GeometricMean(absl::Span<const double> values);

}  // namespace tune::replay
