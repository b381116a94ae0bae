// SPDX-License-Identifier: Apache-2.0
#include "tuner/statistics/paired_ratio.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>

namespace tune {
namespace {

// Student's t, two-sided 95 %, for 1, 2, ... degrees of freedom.
constexpr double kStudent[] = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060,
                               2.2622,  2.2281, 2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199,
                               2.1098,  2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639,
                               2.0595,  2.0555, 2.0518, 2.0484, 2.0452, 2.0423};

// Beyond the table its last value holds, which makes the interval a little wide.
double Student(size_t freedom) { return kStudent[std::min(freedom, std::size(kStudent)) - 1]; }

}  // namespace

RatioInterval EstimateRatio(const std::vector<double>& numerators,
                            const std::vector<double>& denominators) {
  const size_t rounds = numerators.size();
  const double count = static_cast<double>(rounds);
  std::vector<double> logs;
  double mean = 0;
  for (size_t r = 0; r < rounds; ++r) {
    logs.push_back(std::log(numerators[r] / denominators[r]));
    mean += logs.back() / count;
  }
  if (rounds < 2) return {std::exp(mean), 0, std::numeric_limits<double>::infinity()};
  double squares = 0;
  for (double value : logs) squares += (value - mean) * (value - mean);
  const double half = Student(rounds - 1) * std::sqrt(squares / (count - 1) / count);
  return {std::exp(mean), std::exp(mean - half), std::exp(mean + half)};
}

}  // namespace tune
