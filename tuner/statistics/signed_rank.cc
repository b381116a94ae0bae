// SPDX-License-Identifier: Apache-2.0
#include "tuner/statistics/signed_rank.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace tune {
namespace {

// P(sum of a random subset of `ranks` = i), for every i. Each rank takes one pass, which adds the
// subsets that have it.
std::vector<double> SubsetSums(const std::vector<size_t>& ranks) {
  std::vector<double> chances = {1.0};
  for (const size_t rank : ranks) {
    std::vector<double> next(chances.size() + rank, 0.0);
    for (size_t i = 0; i < chances.size(); ++i) {
      next[i] += chances[i] / 2;
      next[i + rank] += chances[i] / 2;
    }
    chances = std::move(next);
  }
  return chances;
}

double TailFrom(const std::vector<double>& chances, size_t sum) {
  double tail = 0;
  // From the far end, where the terms are smallest.
  for (size_t i = chances.size(); i-- > sum;) tail += chances[i];
  return std::min(tail, 1.0);
}

// Tails of the distributions without ties. Measured times have none.
constexpr size_t kTabled = 32;

std::vector<double> TailsOf(size_t count) {
  std::vector<size_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 1);
  const std::vector<double> chances = SubsetSums(ranks);
  std::vector<double> tails(chances.size());
  for (size_t sum = 0; sum < tails.size(); ++sum) tails[sum] = TailFrom(chances, sum);
  return tails;
}

const std::vector<double>& TabledTails(size_t count) {
  static const std::array<std::vector<double>, kTabled + 1> table = [] {
    std::array<std::vector<double>, kTabled + 1> tails;
    for (size_t i = 0; i <= kTabled; ++i) tails[i] = TailsOf(i);
    return tails;
  }();
  return table[count];
}

}  // namespace

double SignedRankP(const std::vector<double>& differences) {
  std::vector<double> sizes;
  sizes.reserve(differences.size());
  for (const double difference : differences) {
    if (difference != 0) sizes.push_back(difference);
  }
  std::sort(sizes.begin(), sizes.end(),
            [](double a, double b) { return std::abs(a) < std::abs(b); });
  // Ranks are doubled, so that shared ones (2.5) stay whole.
  std::vector<size_t> doubled(sizes.size());
  size_t positive = 0;
  bool tied = false;
  for (size_t begin = 0, end = 0; begin < sizes.size(); begin = end) {
    while (end < sizes.size() && std::abs(sizes[end]) == std::abs(sizes[begin])) ++end;
    tied = tied || end - begin > 1;
    for (size_t i = begin; i < end; ++i) {
      doubled[i] = begin + 1 + end;  // twice the mean of ranks begin + 1 to end
      if (sizes[i] > 0) positive += doubled[i];
    }
  }
  if (!tied && sizes.size() <= kTabled) return TabledTails(sizes.size())[positive / 2];
  return TailFrom(SubsetSums(doubled), positive);
}

}  // namespace tune
