// SPDX-License-Identifier: Apache-2.0
#include "tuner/statistics/series.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

#include "tuner/statistics/distributions.h"

namespace tune {
namespace {

constexpr size_t kBimodalLeast = 8;
constexpr double kDipInDeviations = 3;
constexpr double kMadToDeviation = 1.4826;  // of a normal distribution

// The quantile that a two-sided 95 % interval needs. It is kept, since callers ask for the same few
// counts again and again.
double Reach95(size_t degrees) {
  static const std::vector<double> table = [] {
    std::vector<double> quantiles = {std::numeric_limits<double>::infinity()};
    for (int i = 1; i <= 64; ++i) quantiles.push_back(StudentQuantile(0.975, i));
    return quantiles;
  }();
  return degrees < table.size() ? table[degrees]
                                : StudentQuantile(0.975, static_cast<double>(degrees));
}

double SortedMedian(const double* first, size_t count) {
  return count % 2 == 1 ? first[count / 2] : (first[count / 2 - 1] + first[count / 2]) / 2;
}

}  // namespace

double MeanOf(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double StandardDeviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double mean = MeanOf(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

MeanInterval EstimateMean(const std::vector<double>& values) {
  const double mean = MeanOf(values);
  double half = std::numeric_limits<double>::infinity();
  if (values.size() >= 2) {
    const auto count = static_cast<double>(values.size());
    half = Reach95(values.size() - 1) * StandardDeviation(values) / std::sqrt(count);
  }
  return {.mean = mean, .low = mean - half, .high = mean + half};
}

double Lag1Autocorrelation(const std::vector<double>& values) {
  if (values.size() < 3) return 0;
  const double mean = MeanOf(values);
  double products = 0;
  double squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    squares += (values[i] - mean) * (values[i] - mean);
    if (i > 0) products += (values[i] - mean) * (values[i - 1] - mean);
  }
  return squares > 0 ? products / squares : 0;
}

bool IsBimodal(std::vector<double> values, double least_spread) {
  if (values.size() < kBimodalLeast) return false;
  std::sort(values.begin(), values.end());
  const size_t count = values.size();
  const size_t least = std::max<size_t>(2, count / 10);
  size_t split = 0;
  double gap = -1;
  for (size_t i = least; i + least <= count; ++i) {
    if (values[i] - values[i - 1] <= gap) continue;
    gap = values[i] - values[i - 1];
    split = i;
  }
  const double low = SortedMedian(values.data(), split);
  const double high = SortedMedian(values.data() + split, count - split);
  std::vector<double> away(count);
  for (size_t i = 0; i < count; ++i) away[i] = std::abs(values[i] - (i < split ? low : high));
  std::sort(away.begin(), away.end());
  const double spread = kMadToDeviation * SortedMedian(away.data(), count);
  return gap > kDipInDeviations * std::max(spread, least_spread);
}

}  // namespace tune
