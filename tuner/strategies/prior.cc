// SPDX-License-Identifier: Apache-2.0
#include "tuner/strategies/prior.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace tune {
namespace {

constexpr size_t kWeighMin = 6;
// Recordings of real kernels explain 0.6 to 0.97 of themselves. Shuffled ones explain nothing.
constexpr double kExplainedMin = 0.25;
// Predictions kept of each source: more than the candidates that a model has at once.
constexpr size_t kPredictedMax = 50'000;
// The variance of a value that a source measured, when it is taken as a value here.
constexpr double kSourceVariance = 0.01;
// A source that ranks perfectly weighs exp(this) times one that knows nothing.
constexpr double kRankSharpness = 4;

std::vector<double> Ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) {
      ranks[order[i]] = 0.5 * static_cast<double>(begin + end - 1);
    }
    begin = end;
  }
  return ranks;
}

// Spearman's; 0 where one side does not vary.
double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = Ranks(a);
  const std::vector<double> y = Ranks(b);
  const double mean = 0.5 * static_cast<double>(x.size() - 1);
  double xx = 0;
  double yy = 0;
  double xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
    xy += (x[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

}  // namespace

Prior::Prior(const Space& space, const Geometry& geometry,
             const std::vector<PriorObservation>& observations)
    : space_(space) {
  struct Gathered {
    double trust = 1;
    std::unordered_map<uint64_t, double> log_ratios;
  };
  std::map<uint32_t, Gathered> by_number;
  for (const PriorObservation& observation : observations) {
    const std::optional<uint64_t> index = space.IndexOf(observation.config);
    if (!index.has_value() || !(observation.weight > 0)) continue;
    Gathered& of = by_number[observation.source];
    of.trust = observation.weight;
    double log_ratio = kPriorCeiling;
    if (observation.outcome == Outcome::kOk && observation.relative_latency > 0) {
      log_ratio = std::clamp(std::log(observation.relative_latency), 0.0, kPriorCeiling);
    }
    of.log_ratios.try_emplace(*index, log_ratio);
  }
  for (auto& [number, of] : by_number) {
    SourceProcess process(space, geometry, {of.log_ratios.begin(), of.log_ratios.end()});
    if (process.explained() < kExplainedMin) continue;
    sources_.push_back({.trust = of.trust,
                        .weight = of.trust,
                        .log_ratios = std::move(of.log_ratios),
                        .process = std::move(process)});
  }
}

Prediction Prior::Of(Source& source, uint64_t index, absl::Span<const uint16_t> digits) {
  const auto known = source.log_ratios.find(index);
  if (known != source.log_ratios.end()) return {.mean = known->second};
  if (source.predicted.size() >= kPredictedMax) source.predicted.clear();
  const auto [predicted, is_new] = source.predicted.try_emplace(index);
  if (is_new) {
    predicted->second = source.process.Predict(digits);
    predicted->second.mean = std::min(predicted->second.mean, kPriorCeiling);
  }
  return predicted->second;
}

Prediction Prior::LogRatio(uint64_t index, absl::Span<const uint16_t> digits) {
  Prediction sum;
  double weights = 0;
  for (Source& source : sources_) {
    const Prediction of = Of(source, index, digits);
    const double weight = source.weight / (kSourceVariance + of.variance);
    sum.mean += weight * of.mean;
    sum.variance += weight * weight * of.variance;
    weights += weight;
  }
  return {.mean = sum.mean / weights, .variance = sum.variance / (weights * weights)};
}

std::vector<uint64_t> Prior::Best(size_t count) {
  std::vector<std::pair<double, uint64_t>> best;
  std::unordered_map<uint64_t, bool> seen;
  for (const Source& source : sources_) {
    // The configs with the best mean are among the better ones of a source. To take all configs of
    // each would be slow.
    std::vector<std::pair<double, uint64_t>> own;
    for (const auto& [index, log_ratio] : source.log_ratios) own.emplace_back(log_ratio, index);
    const size_t keep = std::min(own.size(), 4 * count);
    std::partial_sort(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(keep), own.end());
    for (size_t i = 0; i < keep; ++i) {
      const uint64_t index = own[i].second;
      if (!seen.emplace(index, true).second) continue;
      best.emplace_back(LogRatio(index, space_.DigitsAt(index)).mean, index);
    }
  }
  std::sort(best.begin(), best.end());
  std::vector<uint64_t> indices;
  for (size_t i = 0; i < std::min(count, best.size()); ++i) indices.push_back(best[i].second);
  return indices;
}

bool Prior::Weigh(const std::vector<std::pair<uint64_t, double>>& measured) {
  if (sources_.size() < 2 || measured.size() < kWeighMin) return false;
  std::vector<double> here;
  for (const auto& [index, log_latency] : measured) here.push_back(log_latency);
  for (Source& source : sources_) {
    std::vector<double> there;
    for (const auto& [index, log_latency] : measured) {
      there.push_back(Of(source, index, space_.DigitsAt(index)).mean);
    }
    source.weight = source.trust * std::exp(kRankSharpness * RankCorrelation(here, there));
  }
  return true;
}

}  // namespace tune
