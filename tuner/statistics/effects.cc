// SPDX-License-Identifier: Apache-2.0
#include "tuner/statistics/effects.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tune {
namespace {

constexpr int kSweepsMax = 200;       // of the additive fit
constexpr double kConverged = 1e-10;  // change of the fit, relative to the spread

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double SumOfSquares(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value * value;
  return sum;
}

std::vector<double> Centred(const std::vector<double>& response) {
  std::vector<double> centred = response;
  const double mean = Mean(response);
  for (double& value : centred) value -= mean;
  return centred;
}

// Takes each level's mean out of the residuals. Returns the largest of these means, and counts the
// levels that occur.
double TakeOutMeans(const std::vector<size_t>& levels, size_t level_count,
                    std::vector<double>& residuals, size_t& seen) {
  std::vector<double> sums(level_count, 0);
  std::vector<size_t> counts(level_count, 0);
  for (size_t i = 0; i < residuals.size(); ++i) {
    sums[levels[i]] += residuals[i];
    ++counts[levels[i]];
  }
  seen = 0;
  double largest = 0;
  for (size_t level = 0; level < level_count; ++level) {
    if (counts[level] == 0) continue;
    ++seen;
    sums[level] /= static_cast<double>(counts[level]);
    largest = std::max(largest, std::abs(sums[level]));
  }
  for (size_t i = 0; i < residuals.size(); ++i) residuals[i] -= sums[levels[i]];
  return largest;
}

// 1 - (residual per degree of freedom) / (total per degree of freedom), in 0..1.
double AdjustedShare(double residual, double total, size_t observations, size_t parameters) {
  if (!(total > 0) || observations <= parameters + 1) return 0;
  const double n = static_cast<double>(observations);
  const double left = residual / (n - 1 - static_cast<double>(parameters));
  return std::clamp(1 - left / (total / (n - 1)), 0.0, 1.0);
}

double AdditiveShareOf(const Observations& observations, const std::vector<size_t>& factors) {
  std::vector<double> residuals = Centred(observations.response);
  const double total = SumOfSquares(residuals);
  if (!(total > 0)) return 0;
  const double spread = std::sqrt(total / static_cast<double>(residuals.size()));
  size_t parameters = 0;
  // Least squares for an unbalanced design, by taking out one factor's means after the other.
  for (int sweep = 0; sweep < kSweepsMax; ++sweep) {
    double change = 0;
    parameters = 0;
    for (size_t factor : factors) {
      size_t seen = 0;
      change = std::max(change, TakeOutMeans(observations.levels[factor],
                                             observations.level_counts[factor], residuals, seen));
      parameters += seen > 0 ? seen - 1 : 0;
    }
    if (change < kConverged * spread) break;
  }
  return AdjustedShare(SumOfSquares(residuals), total, residuals.size(), parameters);
}

}  // namespace

double MainEffect(const Observations& observations, size_t factor) {
  if (observations.response.size() < 3) return 0;
  return AdditiveShareOf(observations, {factor});
}

double AdditiveShare(const Observations& observations) {
  if (observations.response.size() < 3) return 0;
  std::vector<size_t> all(observations.level_counts.size());
  std::iota(all.begin(), all.end(), size_t{0});
  double share = AdditiveShareOf(observations, all);
  for (const size_t factor : all) share = std::max(share, MainEffect(observations, factor));
  return share;
}

double Interaction(const Observations& observations, size_t first, size_t second) {
  if (observations.response.size() < 3) return 0;
  const size_t columns = observations.level_counts[second];
  std::vector<size_t> cells(observations.response.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    cells[i] = observations.levels[first][i] * columns + observations.levels[second][i];
  }
  std::vector<double> residuals = Centred(observations.response);
  const double total = SumOfSquares(residuals);
  size_t seen = 0;
  TakeOutMeans(cells, observations.level_counts[first] * columns, residuals, seen);
  const double of_cells =
      AdjustedShare(SumOfSquares(residuals), total, residuals.size(), seen > 0 ? seen - 1 : 0);
  return std::max(0.0, of_cells - AdditiveShareOf(observations, {first, second}));
}

}  // namespace tune
