// SPDX-License-Identifier: Apache-2.0
// A Gaussian process's prediction for many configs at once. It is extended by a point at a time. A
// point costs O(points x candidates), and no new factorisation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "tuner/strategies/gaussian_process.h"
#include "tuner/strategies/geometry.h"

namespace tune {

// The digits of the configs that a model predicts, axis by axis.
class CandidateTable {
 public:
  explicit CandidateTable(const Geometry& geometry) : columns_(geometry.axes()) {}

  void Add(const Geometry& geometry, uint64_t index, absl::Span<const uint16_t> digits);
  // Lowers the distance of each candidate to that from a config, where it is above that.
  void LowerToDistance(const Geometry& geometry, absl::Span<const uint16_t> digits,
                       std::vector<float>& distances) const;
  size_t size() const { return indices_.size(); }
  uint64_t index(size_t candidate) const { return indices_[candidate]; }
  const std::vector<uint64_t>& indices() const { return indices_; }
  const uint16_t* column(size_t axis) const { return columns_[axis].data(); }

 private:
  std::vector<uint64_t> indices_;
  std::vector<std::vector<uint16_t>> columns_;
};

// The factor L of the covariance of the points, and V = L^-1 times the covariance of points and
// candidates. The prediction of a candidate is the product of its column of V with the whitened
// values; its variance is 1 less the column's squares, in units of the signal's variance.
class CandidateModel {
 public:
  // Both must outlive the model.
  CandidateModel(const Geometry& geometry, const CandidateTable& candidates, ProcessShape shape);

  size_t points() const { return factor_.points(); }
  // A point, observed or to be: its value is not needed.
  void AddPoint(absl::Span<const uint16_t> digits);

  // L^-1 times the values. A missing value is taken to be what the points before it predict, so
  // that it moves nothing.
  std::vector<double> Whiten(absl::Span<const std::optional<double>> values) const;
  // V transposed times the whitened values.
  void Combine(absl::Span<const double> whitened, std::vector<float>& out) const;
  // The sums of squares of the columns of V.
  const std::vector<float>& explained() const { return explained_; }

 private:
  static constexpr size_t kBlock = 512;  // candidates; a row of a block stays in the nearest cache

  // Computes the correlation of the point being added with some candidates.
  void Correlate(size_t first, size_t count, float* out) const;

  const Geometry& geometry_;
  const CandidateTable& candidates_;
  const ProcessShape shape_;
  std::vector<std::vector<uint16_t>> point_digits_;
  ProcessFactor factor_;
  std::vector<std::vector<float>> blocks_;  // of V: [point][candidate of the block]
  std::vector<std::vector<float>> tables_;  // of the point being added: correlation by axis, digit
  std::vector<float> explained_;
};

}  // namespace tune
