// SPDX-License-Identifier: Apache-2.0
// What a source of prior results says about itself: which params matter there, and whether its
// latencies follow from them at all. Internal to tuner/strategies.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tuner/space/space.h"
#include "tuner/strategies/gaussian_process.h"
#include "tuner/strategies/geometry.h"

namespace tune {

struct SourceFit {
  ProcessShape shape;
  // The part of the variance of configs held out that the others predict: at most 1, and 0 or less
  // where they say nothing about each other.
  double explained = 1;
};

// Of pairs of config and log of latency. Where they are too few to tell, PriorShape() and 1.
// Some 20 ms.
SourceFit FitSource(const Space& space, const Geometry& geometry,
                    std::vector<std::pair<uint64_t, double>> log_latencies);

}  // namespace tune
