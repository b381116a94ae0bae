// SPDX-License-Identifier: Apache-2.0
#include "tuner/statistics/median.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace tune {

double MedianOf(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double MedianInterval::precision() const {
  return median > 0 ? (high - low) / 2 / median : std::numeric_limits<double>::infinity();
}

MedianInterval EstimateMedian(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const size_t count = samples.size();
  MedianInterval interval;
  interval.median =
      count % 2 == 1 ? samples[count / 2] : (samples[count / 2 - 1] + samples[count / 2]) / 2;
  interval.low = samples.front();
  interval.high = samples.back();
  if (count < 6) return interval;
  // Ranks (n + 1) / 2 -+ 0.98 sqrt(n), counted from one and rounded away from the middle.
  const double rank = std::floor((static_cast<double>(count) + 1) / 2 -
                                 0.98 * std::sqrt(static_cast<double>(count)));
  const size_t low = static_cast<size_t>(std::max(1.0, rank)) - 1;
  interval.low = samples[low];
  interval.high = samples[count - 1 - low];
  return interval;
}

Measurement Summarise(std::vector<double> samples_ns) {
  Measurement measurement;
  if (samples_ns.empty()) return measurement;
  const MedianInterval interval = EstimateMedian(samples_ns);
  measurement.sample_count = samples_ns.size();
  measurement.latency_ns_median = interval.median;
  measurement.latency_ns_low = interval.low;
  measurement.latency_ns_high = interval.high;
  measurement.latency_ns_min = *std::min_element(samples_ns.begin(), samples_ns.end());
  measurement.latency_ns_mean = std::accumulate(samples_ns.begin(), samples_ns.end(), 0.0) /
                                static_cast<double>(samples_ns.size());
  measurement.samples_ns = std::move(samples_ns);
  return measurement;
}

}  // namespace tune
