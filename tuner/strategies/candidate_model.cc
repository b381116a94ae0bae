// SPDX-License-Identifier: Apache-2.0
#include "tuner/strategies/candidate_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tune {

void CandidateTable::Add(const Geometry& geometry, uint64_t index,
                         absl::Span<const uint16_t> digits) {
  indices_.push_back(index);
  for (size_t axis = 0; axis < columns_.size(); ++axis) {
    columns_[axis].push_back(digits[geometry.param(axis)]);
  }
}

void CandidateTable::LowerToDistance(const Geometry& geometry, absl::Span<const uint16_t> digits,
                                     std::vector<float>& distances) const {
  std::vector<float> sums(size(), 0.0F);
  std::vector<float> table;
  for (size_t axis = 0; axis < columns_.size(); ++axis) {
    table.resize(geometry.radix(axis));
    for (size_t other = 0; other < table.size(); ++other) {
      table[other] =
          static_cast<float>(geometry.Between(axis, digits[geometry.param(axis)], other));
    }
    const std::vector<uint16_t>& column = columns_[axis];
    for (size_t c = 0; c < sums.size(); ++c) sums[c] += table[column[c]];
  }
  for (size_t c = 0; c < sums.size(); ++c) distances[c] = std::min(distances[c], sums[c]);
}

CandidateModel::CandidateModel(const Geometry& geometry, const CandidateTable& candidates,
                               ProcessShape shape)
    : geometry_(geometry),
      candidates_(candidates),
      shape_(std::move(shape)),
      factor_(shape_.noise()),
      blocks_((candidates.size() + kBlock - 1) / kBlock),
      tables_(geometry.axes()),
      explained_(candidates.size(), 0.0F) {}

void CandidateModel::AddPoint(absl::Span<const uint16_t> digits) {
  for (size_t axis = 0; axis < tables_.size(); ++axis) {
    std::vector<float>& table = tables_[axis];
    table.resize(geometry_.radix(axis));
    const double rate = std::exp(-shape_.log_lengths[axis]);
    const size_t digit = digits[geometry_.param(axis)];
    for (size_t other = 0; other < table.size(); ++other) {
      table[other] = static_cast<float>(std::exp(-geometry_.Between(axis, digit, other) * rate));
    }
  }
  // The new row of L.
  const size_t points = factor_.points();
  std::vector<double> correlations(points, 1.0);
  for (size_t i = 0; i < points; ++i) {
    for (size_t axis = 0; axis < tables_.size(); ++axis) {
      correlations[i] *= tables_[axis][point_digits_[i][geometry_.param(axis)]];
    }
  }
  const std::vector<double>& row = factor_.Add(std::move(correlations));

  // The new row of V, block by block.
  const float scale = static_cast<float>(1 / row[points]);
  for (size_t block = 0; block < blocks_.size(); ++block) {
    const size_t first = block * kBlock;
    const size_t count = std::min(kBlock, candidates_.size() - first);
    std::vector<float>& values = blocks_[block];
    values.resize((points + 1) * count);
    float* out = &values[points * count];
    Correlate(first, count, out);
    for (size_t i = 0; i < points; ++i) {
      const float factor = static_cast<float>(row[i]);
      const float* in = &values[i * count];
      for (size_t c = 0; c < count; ++c) out[c] -= factor * in[c];
    }
    float* explained = &explained_[first];
    for (size_t c = 0; c < count; ++c) {
      out[c] *= scale;
      explained[c] += out[c] * out[c];
    }
  }
  point_digits_.emplace_back(digits.begin(), digits.end());
}

void CandidateModel::Correlate(size_t first, size_t count, float* out) const {
  std::fill_n(out, count, 1.0F);
  for (size_t axis = 0; axis < tables_.size(); ++axis) {
    const float* table = tables_[axis].data();
    const uint16_t* digits = candidates_.column(axis) + first;
    for (size_t c = 0; c < count; ++c) out[c] *= table[digits[c]];
  }
}

std::vector<double> CandidateModel::Whiten(absl::Span<const std::optional<double>> values) const {
  std::vector<double> whitened(values.size(), 0.0);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].has_value()) continue;
    whitened[i] = factor_.WhitenAt(i, *values[i], whitened);
  }
  return whitened;
}

void CandidateModel::Combine(absl::Span<const double> whitened, std::vector<float>& out) const {
  out.assign(candidates_.size(), 0.0F);
  for (size_t block = 0; block < blocks_.size(); ++block) {
    const size_t first = block * kBlock;
    const size_t count = std::min(kBlock, candidates_.size() - first);
    for (size_t i = 0; i < whitened.size(); ++i) {
      const float factor = static_cast<float>(whitened[i]);
      if (factor == 0) continue;
      const float* in = &blocks_[block][i * count];
      for (size_t c = 0; c < count; ++c) out[first + c] += factor * in[c];
    }
  }
}

}  // namespace tune
