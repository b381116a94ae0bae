// SPDX-License-Identifier: Apache-2.0
#include "tuner/gate/rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace tune::gate {
namespace {

constexpr int kConfirmLeast = 15;
constexpr int kConfirmMost = 24;
constexpr int kForPower = 6;

// From docs/results/gate-characteristics.md, made monotone.
constexpr std::array<std::pair<double, double>, 7> kE95 = {
    {{1, 1.21}, {2, 1.33}, {5, 1.48}, {10, 1.50}, {20, 1.56}, {50, 1.56}, {100, 1.56}}};

// Linear in the logarithm of the number of kernels; constant beyond the table.
double E95(double flagged) {
  for (size_t i = 1; i < kE95.size(); ++i) {
    const auto [low, low_value] = kE95[i - 1];
    const auto [high, high_value] = kE95[i];
    if (flagged > high) continue;
    const double share = std::log(std::max(flagged, low) / low) / std::log(high / low);
    return low_value + share * (high_value - low_value);
  }
  return kE95.back().second;
}

}  // namespace

int ConfirmRounds(int flagged, double alpha) {
  const double least = std::ceil(std::log2(std::max(flagged, 1) / alpha));
  return std::clamp(static_cast<int>(least) + kForPower, kConfirmLeast, kConfirmMost);
}

double LeastCaught(const Rules& rules, int flagged, double deviation) {
  return rules.delta0 + E95(std::max(flagged, 1)) * deviation;
}

}  // namespace tune::gate
