// SPDX-License-Identifier: Apache-2.0
// How much slower one thing is than another when both were measured in the same rounds.
#pragma once

#include <vector>

namespace tune {

struct RatioInterval {
  double ratio = 1;
  double low = 0;
  double high = 0;

  bool contains(double value) const { return low <= value && value <= high; }
};

// numerators[r] and denominators[r] are of round r, so effects of a round on both cancel. The ratio
// is the geometric mean of the rounds' ratios. The interval is Student's at 95 % on their
// logarithms (Student, "The Probable Error of a Mean", Biometrika 6, 1908). A single round gives
// the interval (0, infinity). REQUIRES: equally many of both, at least one, all above zero.
RatioInterval EstimateRatio(const std::vector<double>& numerators,
                            const std::vector<double>& denominators);

}  // namespace tune
