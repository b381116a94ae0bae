// SPDX-License-Identifier: Apache-2.0
#include "tuner/strategies/prior.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "tuner/strategies/random_source.h"

namespace tune {
namespace {

constexpr size_t kAnchors = 256;
// Weight of an anchor falls by e for this distance, summed over the axes.
constexpr double kAnchorLength = 0.25;
constexpr size_t kWeighMin = 6;
// Recordings of real kernels explain 0.6 to 0.97 of themselves, shuffled ones nothing.
constexpr double kExplainedMin = 0.25;
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
    : space_(space), geometry_(geometry) {
  std::map<uint32_t, Source> by_number;
  for (const PriorObservation& observation : observations) {
    const std::optional<uint64_t> index = space.IndexOf(observation.config);
    if (!index.has_value() || observation.weight <= 0) continue;
    Source& source = by_number[observation.source];
    source.trust = source.weight = observation.weight;
    double log_ratio = kPriorCeiling;
    if (observation.outcome == Outcome::kOk && observation.relative_latency > 0) {
      log_ratio = std::clamp(std::log(observation.relative_latency), 0.0, kPriorCeiling);
    }
    source.log_ratios.try_emplace(*index, static_cast<float>(log_ratio));
  }
  for (auto& [number, source] : by_number) {
    source.fit = FitSource(space, geometry, {source.log_ratios.begin(), source.log_ratios.end()});
    if (source.fit.explained < kExplainedMin) continue;
    Anchor(source, number);
    sources_.push_back(std::move(source));
  }
}

void Prior::Anchor(Source& source, uint64_t seed) const {
  for (const auto& [index, log_ratio] : source.log_ratios) source.anchors.push_back(index);
  std::sort(source.anchors.begin(), source.anchors.end());
  RandomSource random(seed);
  const size_t count = std::min(kAnchors, source.anchors.size());
  for (size_t i = 0; i < count; ++i) {
    std::swap(source.anchors[i], source.anchors[i + random.Below(source.anchors.size() - i)]);
  }
  source.anchors.resize(count);
  for (uint64_t index : source.anchors) source.anchor_digits.push_back(space_.DigitsAt(index));
}

ProcessShape Prior::ExpectedShape() const {
  const ProcessShape usual = PriorShape(geometry_);
  ProcessShape expected = usual;
  for (const Source& source : sources_) {
    const ProcessShape& fitted = source.fit.shape;
    const double share = source.fit.explained / static_cast<double>(sources_.size());
    expected.log_noise += share * (fitted.log_noise - usual.log_noise);
    for (size_t axis = 0; axis < usual.log_lengths.size(); ++axis) {
      expected.log_lengths[axis] += share * (fitted.log_lengths[axis] - usual.log_lengths[axis]);
    }
  }
  return expected;
}

double Prior::Guess(const Source& source, absl::Span<const uint16_t> digits) const {
  double sum = 0;
  double weights = 1e-12;
  for (size_t i = 0; i < source.anchors.size(); ++i) {
    const double distance = geometry_.Distance(digits, source.anchor_digits[i]);
    const double weight = std::exp(-distance / kAnchorLength);
    sum += weight * source.log_ratios.at(source.anchors[i]);
    weights += weight;
  }
  return sum / weights;
}

double Prior::Of(const Source& source, uint64_t index, absl::Span<const uint16_t> digits) const {
  const auto known = source.log_ratios.find(index);
  return known != source.log_ratios.end() ? known->second : Guess(source, digits);
}

double Prior::LogRatio(uint64_t index, absl::Span<const uint16_t> digits) const {
  double sum = 0;
  double weights = 0;
  for (const Source& source : sources_) {
    sum += source.weight * Of(source, index, digits);
    weights += source.weight;
  }
  return sum / weights;
}

std::vector<uint64_t> Prior::Best(size_t count) const {
  std::vector<std::pair<double, uint64_t>> best;
  std::unordered_map<uint64_t, bool> seen;
  for (const Source& source : sources_) {
    // The best of the mean are among the better ones of a source; all of each would be slow.
    std::vector<std::pair<float, uint64_t>> own;
    for (const auto& [index, log_ratio] : source.log_ratios) own.emplace_back(log_ratio, index);
    const size_t keep = std::min(own.size(), 4 * count);
    std::partial_sort(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(keep), own.end());
    for (size_t i = 0; i < keep; ++i) {
      const uint64_t index = own[i].second;
      if (!seen.emplace(index, true).second) continue;
      best.emplace_back(LogRatio(index, space_.DigitsAt(index)), index);
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
      there.push_back(Of(source, index, space_.DigitsAt(index)));
    }
    source.weight = source.trust * std::exp(kRankSharpness * RankCorrelation(here, there));
  }
  return true;
}

}  // namespace tune
