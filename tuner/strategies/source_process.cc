// SPDX-License-Identifier: Apache-2.0
#include "tuner/strategies/source_process.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "tuner/strategies/best_and_some.h"
#include "tuner/strategies/random_source.h"

namespace tune {
namespace {

// At most so many configs are looked at, half of them the best. A third of them is held out. With
// fewer than the least none is, since real recordings so small now and then explain nothing of
// themselves.
constexpr size_t kConfigsMax = 180;
constexpr size_t kConfigsMin = 60;
constexpr int kSourceClimbRounds = 4;
constexpr double kSourceUnitMin = 1e-9;

using LogLatencies = std::vector<std::pair<uint64_t, double>>;

// Some of the configs, the best among them, in random order.
void Choose(LogLatencies& of) {
  RandomSource random(0);
  KeepBestAndSome(
      std::min(of.size(), kConfigsMax), [](const auto& a) { return std::pair(a.second, a.first); },
      random, of);
  for (size_t i = 0; i < of.size(); ++i) std::swap(of[i], of[i + random.Below(of.size() - i)]);
}

// Values above the median count as at most as far from it as the best is, as in a search.
void Clip(LogLatencies& of) {
  std::vector<double> sorted;
  for (const auto& [index, value] : of) sorted.push_back(value);
  std::sort(sorted.begin(), sorted.end());
  const double ceiling = 2 * sorted[sorted.size() / 2] - sorted.front();
  for (auto& [index, value] : of) value = std::min(value, ceiling);
}

}  // namespace

SourceProcess::SourceProcess(const Space& space, const Geometry& geometry, LogLatencies of)
    : geometry_(geometry) {
  Choose(of);
  Clip(of);
  double square = 0;
  for (const auto& [index, value] : of) {
    mean_ += value / static_cast<double>(of.size());
    square += value * value / static_cast<double>(of.size());
  }
  unit_ = std::sqrt(std::max(square - mean_ * mean_, 0.0)) + kSourceUnitMin;

  std::vector<std::vector<uint16_t>> digits;
  std::vector<double> values;
  for (const auto& [index, value] : of) {
    digits.push_back(space.DigitsAt(index));
    values.push_back((value - mean_) / unit_);
  }
  const size_t held_out = of.size() < kConfigsMin ? 0 : of.size() / 3;
  const size_t fitted = of.size() - held_out;
  ProcessShape shape = PriorShape(geometry);
  if (held_out > 0) {
    ProcessFit fit(geometry, {digits.begin(), digits.begin() + static_cast<std::ptrdiff_t>(fitted)},
                   {values.begin(), values.begin() + static_cast<std::ptrdiff_t>(fitted)});
    shape = fit.Climb(shape, kSourceClimbRounds);
  }
  for (double log_length : shape.log_lengths) rates_.push_back(std::exp(-log_length));
  factor_ = ProcessFactor(shape.noise());
  for (size_t i = 0; i < fitted; ++i) Add(digits[i], values[i]);

  double left = 0;
  double all = kSourceUnitMin;
  for (size_t i = fitted; i < of.size(); ++i) {
    const double error = values[i] - PredictScaled(digits[i]).mean;
    left += error * error;
    all += values[i] * values[i];
  }
  explained_ = 1 - left / all;
  for (size_t i = fitted; i < of.size(); ++i) Add(digits[i], values[i]);
  variance_ =
      ProcessVariance(Dot(whitened_.data(), whitened_.data(), whitened_.size()), whitened_.size());
}

void SourceProcess::Add(std::vector<uint16_t> digits, double value) {
  factor_.Add(Correlations(digits));
  points_.push_back(std::move(digits));
  whitened_.push_back(factor_.WhitenAt(whitened_.size(), value, whitened_));
}

std::vector<double> SourceProcess::Correlations(absl::Span<const uint16_t> digits) const {
  std::vector<double> correlations;
  correlations.reserve(points_.size() + 1);
  for (const std::vector<uint16_t>& point : points_) {
    double sum = 0;
    for (size_t axis = 0; axis < rates_.size(); ++axis) {
      const size_t param = geometry_.param(axis);
      sum += geometry_.Between(axis, digits[param], point[param]) * rates_[axis];
    }
    correlations.push_back(std::exp(-sum));
  }
  return correlations;
}

Prediction SourceProcess::PredictScaled(absl::Span<const uint16_t> digits) const {
  const std::vector<double> solved = factor_.Solve(Correlations(digits));
  const double left = 1 - Dot(solved.data(), solved.data(), solved.size());
  return {.mean = Dot(solved.data(), whitened_.data(), solved.size()),
          .variance = variance_ * std::max(left, 0.0)};
}

Prediction SourceProcess::Predict(absl::Span<const uint16_t> digits) const {
  const Prediction scaled = PredictScaled(digits);
  return {.mean = mean_ + unit_ * scaled.mean, .variance = unit_ * unit_ * scaled.variance};
}

}  // namespace tune
