// SPDX-License-Identifier: Apache-2.0
// Finds the places where a series changes its level, for the history of a kernel over many commits.
// A change shows only with values after it, so this cannot judge the newest commit; the gate can.
#pragma once

#include <cstddef>
#include <vector>

namespace tune {

struct ChangePointOptions {
  size_t window = 50;  // values on each side that have a say
  double p_max = 0.001;
  double least_change = 0.01;  // of the level before
};

struct ChangePoint {
  size_t index = 0;   // of the first value of the new level
  double before = 0;  // mean of the level that ends
  double after = 0;
  double p = 1;  // of Welch's t-test between the two levels
};

// Splits the series where the energy distance between the two sides is greatest (E-divisive:
// Matteson and James, arXiv 1306.4933). It keeps a split if a t-test finds it likely, and splits
// the parts again. At first it is generous (ten times p_max). Then the weakest points go until
// every one left is significant and large enough (Hunter: Fleming et al., arXiv 2301.03034). A
// t-test in place of permutations gives the same answer every time. Sorted by index. REQUIRES:
// values are finite and positive.
std::vector<ChangePoint> FindChangePoints(const std::vector<double>& values,
                                          const ChangePointOptions& options);

// The two-sided p of Welch's t-test for different means. 1 if either has fewer than two values.
double WelchP(const std::vector<double>& a, const std::vector<double>& b);

// The two-sided p of a paired t-test for a mean log ratio other than 0. 1 for fewer than three
// ratios.
double PairedP(const std::vector<double>& log_ratios);

}  // namespace tune
