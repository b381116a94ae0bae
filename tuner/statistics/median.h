// SPDX-License-Identifier: Apache-2.0
// The median of samples and how well it is known.
#pragma once

#include <vector>

#include "tuner/trial.h"

namespace tune {

struct MedianInterval {
  double median = 0;
  double low = 0;
  double high = 0;

  // Half width over median.
  double precision() const;
};

// The upper one of an even count. REQUIRES: values not empty.
double MedianOf(std::vector<double> values);

// Median and its distribution-free 95 % interval by order statistics: ranks n/2 -+ 0.98 sqrt(n)
// (Conover, Practical Nonparametric Statistics, 3.2). With fewer than 6 samples no such interval
// exists: low and high are the extremes. REQUIRES: samples not empty.
MedianInterval EstimateMedian(std::vector<double> samples);

// Median, interval, minimum, mean; rates from declared work are filled in by ApplyRoofline.
Measurement Summarise(std::vector<double> samples_ns);

}  // namespace tune
