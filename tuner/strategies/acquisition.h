// SPDX-License-Identifier: Apache-2.0
// How promising a config is, given a normal prediction of its value. Smaller values are better.
#pragma once

#include <cmath>

namespace tune {

inline double NormalDensity(double z) { return 0.3989422804014327 * std::exp(-0.5 * z * z); }
inline double NormalBelow(double z) { return 0.5 * std::erfc(-0.7071067811865476 * z); }

// The expected amount by which a value falls below the best. Source: Jones, Schonlau, Welch,
// "Efficient global optimization of expensive black-box functions", Journal of Global Optimization,
// 1998.
inline double ExpectedImprovement(double best, double mean, double deviation) {
  const double z = (best - mean) / deviation;
  return deviation * (z * NormalBelow(z) + NormalDensity(z));
}

}  // namespace tune
