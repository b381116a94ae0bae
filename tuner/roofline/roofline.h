// SPDX-License-Identifier: Apache-2.0
// Holds a measurement against what the device can do.
#pragma once

#include <string>
#include <vector>

#include "tuner/device/runner.h"
#include "tuner/plan.h"
#include "tuner/trial.h"

namespace tune {

struct Roof {
  double floor_ns = 0;  // no variant can be faster
  std::string bound;    // "memory" or "compute"; empty when no ceiling is known
  double ceiling = 0;   // bytes/s or FLOP/s
  bool measured = false;
};

// floor = max(bytes / copy bandwidth, flops / peak). Source: Williams, Waterman, Patterson,
// "Roofline", CACM 52(4), 2009.
Roof RoofFor(const WorkPlan& work, const std::vector<Ceiling>& ceilings);

// Fills in rates and peak_fraction. True if the median is below 0.97 of the floor of a measured
// roof and the sample is cold: then nobody should believe it (Outcome kAboveRoof).
bool ApplyRoofline(const WorkPlan& work, const Roof& roof, Measurement& measurement);

}  // namespace tune
