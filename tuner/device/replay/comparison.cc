// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/replay/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tuner/device/replay/score.h"

namespace tune::replay {
namespace {

double BestAfter(const Played& run, uint64_t evaluations) {
  if (run.best_ns.empty()) return std::numeric_limits<double>::infinity();
  return run.best_ns[std::min<size_t>(evaluations, run.best_ns.size()) - 1];
}

}  // namespace

RunsSummary Summarise(absl::Span<const Played> runs, double optimum_ns, uint64_t budget_trials) {
  RunsSummary summary;
  std::vector<double> ratios(runs.size());
  auto ratios_after = [&](uint64_t evaluations) {
    for (size_t i = 0; i < runs.size(); ++i) {
      ratios[i] = BestAfter(runs[i], evaluations) / optimum_ns;
    }
    std::sort(ratios.begin(), ratios.end());
  };
  for (uint64_t evaluations = 1; evaluations <= budget_trials; ++evaluations) {
    ratios_after(evaluations);
    summary.after.push_back({.low = QuantileOf(ratios, 0.25),
                             .median = QuantileOf(ratios, 0.5),
                             .high = QuantileOf(ratios, 0.75)});
  }
  ratios_after(std::max<uint64_t>(budget_trials, 1));
  const double count = static_cast<double>(runs.size());
  summary.within_5_percent =
      static_cast<double>(std::upper_bound(ratios.begin(), ratios.end(), 1.05) - ratios.begin()) /
      count;
  summary.hit_optimum =
      static_cast<double>(std::upper_bound(ratios.begin(), ratios.end(), 1.0) - ratios.begin()) /
      count;
  std::vector<double> overhead_us;
  std::vector<double> evaluations;
  for (const Played& run : runs) {
    overhead_us.insert(overhead_us.end(), run.overhead_us.begin(), run.overhead_us.end());
    evaluations.push_back(static_cast<double>(run.best_ns.size()));
  }
  std::sort(overhead_us.begin(), overhead_us.end());
  std::sort(evaluations.begin(), evaluations.end());
  if (!overhead_us.empty()) summary.overhead_us_median = QuantileOf(overhead_us, 0.5);
  summary.evaluations_median = static_cast<uint64_t>(QuantileOf(evaluations, 0.5));
  return summary;
}

double GeometricMean(absl::Span<const double> values) {
  double logs = 0;
  for (const double value : values) logs += std::log(value);
  return std::exp(logs / static_cast<double>(values.size()));
}

}  // namespace tune::replay
