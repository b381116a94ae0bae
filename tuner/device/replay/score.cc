// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/replay/score.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tune::replay {
namespace {

constexpr double kGapClosed = 0.95;  // where the methodology ends
constexpr double kGapOpened = 0.01;  // where it starts

std::vector<double> SortedLatencies(const Recording& recording) {
  std::vector<double> latencies_ns;
  for (const RecordedTrial& trial : recording.trials) {
    if (trial.outcome == Outcome::kOk) latencies_ns.push_back(trial.latency_ns);
  }
  std::sort(latencies_ns.begin(), latencies_ns.end());
  return latencies_ns;
}

}  // namespace

double QuantileOf(absl::Span<const double> sorted, double quantile) {
  const double place = quantile * static_cast<double>(sorted.size() - 1);
  const size_t low = static_cast<size_t>(place);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  // Infinities must not meet in a difference.
  if (sorted[low] == sorted[high] || place == static_cast<double>(low)) return sorted[low];
  return sorted[low] + (place - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

double RandomMedianNs(const Recording& recording, uint64_t evaluations) {
  const std::vector<double> latencies_ns = SortedLatencies(recording);
  const double total = static_cast<double>(recording.trials.size());
  const double draws = static_cast<double>(evaluations);
  // Chance that none of the best `place + 1` is drawn: C(total - place - 1, draws) / C(total,
  // draws).
  double missed = 1;
  for (size_t place = 0; place < latencies_ns.size(); ++place) {
    const double left = total - static_cast<double>(place);
    missed *= std::max(0.0, left - draws) / left;
    if (missed <= 0.5) return latencies_ns[place];
  }
  return std::numeric_limits<double>::infinity();
}

MethodologyScore::MethodologyScore(const Recording& recording)
    : latencies_ns_(SortedLatencies(recording)) {
  start_ = EvaluationsTo(kGapOpened);
  end_ = EvaluationsTo(kGapClosed);
}

uint64_t MethodologyScore::EvaluationsTo(double fraction) const {
  const double optimum = latencies_ns_.front();
  const double median = QuantileOf(latencies_ns_, 0.5);
  const double target = optimum + (1 - fraction) * (median - optimum);
  const auto first_slower = std::upper_bound(latencies_ns_.begin(), latencies_ns_.end(), target);
  const double slower = static_cast<double>(latencies_ns_.end() - first_slower);
  const double count = static_cast<double>(latencies_ns_.size());
  return std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(slower / (count + 1 - slower))));
}

double MethodologyScore::BaselineNs(uint64_t evaluations) const {
  const double count = static_cast<double>(latencies_ns_.size());
  const double k = static_cast<double>(evaluations);
  // The place from the worst, rounded half to even as the methodology's software does.
  const double place = std::min(count - 1, std::nearbyint(k * (count + 1) / (k + 1)));
  return latencies_ns_[latencies_ns_.size() - 1 - static_cast<size_t>(place)];
}

double MethodologyScore::Of(absl::Span<const std::vector<double>> runs) const {
  const double optimum = latencies_ns_.front();
  double sum = 0;
  uint64_t count = 0;
  for (uint64_t k = start_; k < std::max(end_, start_ + 1); ++k) {
    double ranks = 0;
    for (const std::vector<double>& run : runs) {
      const double best_ns = run.empty() ? std::numeric_limits<double>::infinity()
                                         : run[std::min<size_t>(k, run.size()) - 1];
      const auto place = std::lower_bound(latencies_ns_.begin(), latencies_ns_.end(), best_ns);
      ranks += static_cast<double>(std::min<ptrdiff_t>(
          place - latencies_ns_.begin(), static_cast<ptrdiff_t>(latencies_ns_.size()) - 1));
    }
    const double rank = std::nearbyint(ranks / static_cast<double>(runs.size()));
    const double baseline = BaselineNs(k);
    ++count;
    if (baseline > optimum) {
      sum += (baseline - latencies_ns_[static_cast<size_t>(rank)]) / (baseline - optimum);
    }
  }
  return sum / static_cast<double>(count);
}

}  // namespace tune::replay
