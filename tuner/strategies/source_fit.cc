// SPDX-License-Identifier: Apache-2.0
#include "tuner/strategies/source_fit.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "tuner/strategies/best_and_some.h"
#include "tuner/strategies/candidate_model.h"
#include "tuner/strategies/random_source.h"

namespace tune {
namespace {

// So many configs are looked at, half of them the best; a third of them is held out. Of fewer than
// the least, real recordings now and then explain nothing of themselves.
constexpr size_t kConfigsMax = 180;
constexpr size_t kConfigsMin = 60;
constexpr int kClimbRounds = 4;
constexpr double kUnitMin = 1e-9;

using LogLatencies = std::vector<std::pair<uint64_t, double>>;

// To a mean of 0 and a variance of 1. Above the median all count as no slower than the best is
// faster, as in a search.
void Standardise(LogLatencies& of) {
  std::vector<double> sorted;
  for (const auto& [index, value] : of) sorted.push_back(value);
  std::sort(sorted.begin(), sorted.end());
  const double ceiling = 2 * sorted[sorted.size() / 2] - sorted.front();
  const double count = static_cast<double>(of.size());
  double mean = 0;
  double square = 0;
  for (auto& [index, value] : of) {
    value = std::min(value, ceiling);
    mean += value / count;
    square += value * value / count;
  }
  const double unit = std::sqrt(std::max(square - mean * mean, 0.0)) + kUnitMin;
  for (auto& [index, value] : of) value = (value - mean) / unit;
}

}  // namespace

SourceFit FitSource(const Space& space, const Geometry& geometry, LogLatencies log_latencies) {
  SourceFit fit{.shape = PriorShape(geometry)};
  if (log_latencies.size() < kConfigsMin) return fit;
  RandomSource random(0);
  KeepBestAndSome(
      std::min(log_latencies.size(), kConfigsMax),
      [](const auto& of) { return std::pair(of.second, of.first); }, random, log_latencies);
  for (size_t i = 0; i < log_latencies.size(); ++i) {
    std::swap(log_latencies[i], log_latencies[i + random.Below(log_latencies.size() - i)]);
  }
  Standardise(log_latencies);

  const size_t held = log_latencies.size() / 3;
  CandidateTable held_out(geometry);
  std::vector<std::vector<uint16_t>> digits;
  std::vector<double> values;
  for (size_t i = 0; i < log_latencies.size(); ++i) {
    const auto& [index, value] = log_latencies[i];
    if (i < held) {
      held_out.Add(geometry, index, space.DigitsAt(index));
    } else {
      digits.push_back(space.DigitsAt(index));
      values.push_back(value);
    }
  }
  fit.shape = ProcessFit(geometry, digits, values, fit.shape).Climb(fit.shape, kClimbRounds);

  CandidateModel model(geometry, held_out, fit.shape);
  for (const std::vector<uint16_t>& point : digits) model.AddPoint(point);
  std::vector<float> predicted;
  model.Combine(model.Whiten(std::vector<std::optional<double>>(values.begin(), values.end())),
                predicted);
  double left = 0;
  double all = kUnitMin;
  for (size_t i = 0; i < held; ++i) {
    const double value = log_latencies[i].second;
    left += (value - predicted[i]) * (value - predicted[i]);
    all += value * value;
  }
  fit.explained = 1 - left / all;
  return fit;
}

}  // namespace tune
