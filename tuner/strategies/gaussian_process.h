// SPDX-License-Identifier: Apache-2.0
// A Gaussian process over configs. The correlation of two configs is exp(-sum of distance / length)
// over the axes, with a length for each. The functions that it describes are continuous but rough,
// as latencies over tuning parameters are. Source: Rasmussen, Williams, "Gaussian Processes for
// Machine Learning", 2006, chapters 2 and 5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tuner/strategies/geometry.h"

namespace tune {

// The hyperparameters of the process. The signal's variance is integrated out.
struct ProcessShape {
  std::vector<double> log_lengths;  // of each axis
  double log_noise = 0;             // log of the noise variance over the signal's

  double noise() const;
};

// The most likely shape before anything is known. Lengths grow with the number of axes, so that the
// correlation of two random configs does not vanish.
ProcessShape PriorShape(const Geometry& geometry);

// The signal's variance, given the sum of squares of the whitened values of some points.
double ProcessVariance(double squares, size_t points);

// The factor L of the covariance of points, in units of the signal's variance. It is extended by a
// point at a time.
class ProcessFactor {
 public:
  explicit ProcessFactor(double noise = 0) : noise_(noise) {}

  size_t points() const { return rows_.size(); }
  // L^-1 times the correlations of a config with the points. The points leave open this part of the
  // signal's variance: 1 less the sum of the result's squares. They predict the product of the
  // result with the whitened values.
  std::vector<double> Solve(std::vector<double> correlations) const;
  // Adds a config, given its correlations with the points. Returns its row of L.
  const std::vector<double>& Add(std::vector<double> correlations);
  // The point's component of L^-1 times the values, given its value and the components before it.
  double WhitenAt(size_t point, double value, absl::Span<const double> before) const;

 private:
  double noise_;
  std::vector<std::vector<double>> rows_;
};

// Pairwise distances of the points that a shape is fitted to.
class ProcessFit {
 public:
  // `digits` has one config after the other. `values` has mean 0 and variance 1.
  ProcessFit(const Geometry& geometry, const std::vector<std::vector<uint16_t>>& digits,
             std::vector<double> values);

  // Log of the posterior density of a shape, but for a constant.
  double LogPosterior(const ProcessShape& shape);
  // Climbs from `start` along one coordinate after the other, `rounds` times.
  ProcessShape Climb(ProcessShape start, int rounds);

 private:
  double LogPrior(const ProcessShape& shape) const;
  // Factors the covariance in place. Returns the log of the root of its determinant.
  double Factor(const ProcessShape& shape);

  const size_t axes_;
  const size_t count_;
  const ProcessShape prior_;
  std::vector<float> distances_;  // [pair][axis], pairs of the lower triangle row by row
  std::vector<double> values_;
  std::vector<double> factor_;  // count_ x count_, lower
};

// Sum of products, in an order that does not depend on the compiler.
double Dot(const double* a, const double* b, size_t size);

}  // namespace tune
