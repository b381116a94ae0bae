// SPDX-License-Identifier: Apache-2.0
#include "tuner/strategies/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tune {
namespace {

// Spreads of the prior, in log units. That of the lengths is narrow: a dozen points say little
// about ten lengths.
constexpr double kLengthSpread = 0.5;
constexpr double kLogNoise = -6;
constexpr double kNoiseSpread = 1.5;
// The signal's variance has an inverse-gamma prior, as if this many values had been seen with a
// variance of 1.
constexpr double kSignalPriorCount = 4;
constexpr double kJitter = 1e-9;
constexpr double kVarianceMin = 1e-9;  // of a point, given those before it
constexpr double kFirstStep = 0.5;
constexpr int kStrides = 3;

double Square(double x) { return x * x; }

}  // namespace

double Dot(const double* a, const double* b, size_t size) {
  double sums[8] = {};
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  double sum = 0;
  for (; i < size; ++i) sum += a[i] * b[i];
  for (double lane : sums) sum += lane;
  return sum;
}

double ProcessShape::noise() const { return std::exp(log_noise) + kJitter; }

ProcessShape PriorShape(const Geometry& geometry) {
  const double axes = static_cast<double>(std::max<size_t>(geometry.axes(), 1));
  return {.log_lengths = std::vector<double>(geometry.axes(), 0.5 * std::log(axes)),
          .log_noise = kLogNoise};
}

double ProcessVariance(double squares, size_t points) {
  return (squares + kSignalPriorCount) / (static_cast<double>(points) + kSignalPriorCount);
}

std::vector<double> ProcessFactor::Solve(std::vector<double> of) const {
  for (size_t i = 0; i < of.size(); ++i) {
    of[i] = (of[i] - Dot(of.data(), rows_[i].data(), i)) / rows_[i][i];
  }
  return of;
}

const std::vector<double>& ProcessFactor::Add(std::vector<double> correlations) {
  std::vector<double> row = Solve(std::move(correlations));
  const double left = 1 + noise_ - Dot(row.data(), row.data(), row.size());
  row.push_back(std::sqrt(std::max(left, kVarianceMin)));
  return rows_.emplace_back(std::move(row));
}

double ProcessFactor::WhitenAt(size_t point, double value, absl::Span<const double> before) const {
  const std::vector<double>& row = rows_[point];
  return (value - Dot(row.data(), before.data(), point)) / row[point];
}

ProcessFit::ProcessFit(const Geometry& geometry, const std::vector<std::vector<uint16_t>>& digits,
                       std::vector<double> values)
    : axes_(geometry.axes()),
      count_(digits.size()),
      prior_(PriorShape(geometry)),
      values_(std::move(values)),
      factor_(count_ * count_) {
  distances_.reserve(count_ * (count_ + 1) / 2 * axes_);
  for (size_t row = 0; row < count_; ++row) {
    for (size_t column = 0; column <= row; ++column) {
      for (size_t axis = 0; axis < axes_; ++axis) {
        const size_t param = geometry.param(axis);
        distances_.push_back(
            static_cast<float>(geometry.Between(axis, digits[row][param], digits[column][param])));
      }
    }
  }
}

double ProcessFit::LogPrior(const ProcessShape& shape) const {
  double sum = Square((shape.log_noise - prior_.log_noise) / kNoiseSpread);
  for (size_t axis = 0; axis < axes_; ++axis) {
    sum += Square((shape.log_lengths[axis] - prior_.log_lengths[axis]) / kLengthSpread);
  }
  return -0.5 * sum;
}

double ProcessFit::Factor(const ProcessShape& shape) {
  std::vector<float> rates;
  for (double length : shape.log_lengths) rates.push_back(static_cast<float>(std::exp(-length)));
  const double noise = shape.noise();
  const float* pair = distances_.data();
  double log_root = 0;
  for (size_t row = 0; row < count_; ++row) {
    double* of_row = &factor_[row * count_];
    for (size_t column = 0; column <= row; ++column, pair += axes_) {
      float sum = 0;
      for (size_t axis = 0; axis < axes_; ++axis) sum += pair[axis] * rates[axis];
      of_row[column] = std::exp(-sum);
    }
    of_row[row] += noise;
    for (size_t column = 0; column < row; ++column) {
      const double* of_column = &factor_[column * count_];
      of_row[column] = (of_row[column] - Dot(of_row, of_column, column)) / of_column[column];
    }
    // The noise keeps it positive, apart from rounding.
    of_row[row] = std::sqrt(std::max(of_row[row] - Dot(of_row, of_row, row), kJitter));
    log_root += std::log(of_row[row]);
  }
  return log_root;
}

double ProcessFit::LogPosterior(const ProcessShape& shape) {
  const double log_root = Factor(shape);
  std::vector<double> values(count_);
  std::vector<double> ones(count_);
  for (size_t row = 0; row < count_; ++row) {
    const double* of_row = &factor_[row * count_];
    values[row] = (values_[row] - Dot(of_row, values.data(), row)) / of_row[row];
    ones[row] = (1 - Dot(of_row, ones.data(), row)) / of_row[row];
  }
  const double mean =
      Dot(ones.data(), values.data(), count_) / Dot(ones.data(), ones.data(), count_);
  double squares = 0;
  for (size_t row = 0; row < count_; ++row) squares += Square(values[row] - mean * ones[row]);
  const double freedom = static_cast<double>(count_) + kSignalPriorCount;
  const double variance = ProcessVariance(squares, count_);
  return -log_root - 0.5 * freedom * std::log(variance) + LogPrior(shape);
}

ProcessShape ProcessFit::Climb(ProcessShape shape, int rounds) {
  const auto coordinate = [&](ProcessShape& of, size_t i) -> double& {
    return i < axes_ ? of.log_lengths[i] : of.log_noise;
  };
  std::vector<double> steps(axes_ + 1, kFirstStep);
  double height = LogPosterior(shape);
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < steps.size(); ++i) {
      bool moved = false;
      for (double direction : {-1.0, 1.0}) {
        for (int stride = 0; stride <= kStrides; ++stride) {
          ProcessShape next = shape;
          coordinate(next, i) += direction * steps[i];
          const double next_height = LogPosterior(next);
          if (next_height <= height) break;
          shape = std::move(next);
          height = next_height;
          moved = true;
        }
        if (moved) break;
      }
      steps[i] *= moved ? 1.2 : 0.5;
    }
  }
  return shape;
}

}  // namespace tune
