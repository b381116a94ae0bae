// SPDX-License-Identifier: Apache-2.0
// Statistics of a handful of numbers in a row: their mean and how well it is known, whether
// neighbours are alike, and whether the numbers fall in two groups.
#pragma once

#include <vector>

namespace tune {

double MeanOf(const std::vector<double>& values);  // REQUIRES: not empty
// With n - 1 in the denominator; 0 for fewer than two values.
double StandardDeviation(const std::vector<double>& values);

struct MeanInterval {
  double mean = 0;
  double low = 0;
  double high = 0;
};
// Student's t interval at 95 %. It is right from very few values on, where a bootstrap is too
// narrow. With fewer than two values it is infinite. REQUIRES: not empty.
MeanInterval EstimateMean(const std::vector<double>& values);

// The correlation of each value with the next, around the common mean. 0 for fewer than three
// values, or if all are equal.
double Lag1Autocorrelation(const std::vector<double>& values);

// Whether the values fall in two groups. The gap between the groups must be wider than three robust
// standard deviations of the groups. Each group must have two values and a tenth of all. Below
// eight values the answer is no. `least_spread` is how finely the values are known.
bool IsBimodal(std::vector<double> values, double least_spread);

}  // namespace tune
