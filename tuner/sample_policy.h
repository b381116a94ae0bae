// SPDX-License-Identifier: Apache-2.0
// How many samples a measurement takes, and when it stops.
#pragma once

#include "tuner/trial.h"

namespace tune {

// How samples are taken. The defaults suit a search: enough to rank configs, since the top few are
// measured again before a winner is named.
struct SamplePolicy {
  CacheMode cache_mode = CacheMode::kCold;
  int samples_min = 20;
  int samples_max = 60;
  double seconds_max = 0.05;  // of kernel time per trial
  double precision = 0.005;   // half width of the median's interval over the median
  // Stop after a few samples if slower than this by far (nanoseconds; 0: no rival yet).
  double rival_latency_ns = 0;
  double hopeless_ratio = 2.0;
};
TUNE_FIELDS(SamplePolicy, cache_mode, samples_min, samples_max, seconds_max, precision,
            rival_latency_ns, hopeless_ratio);

}  // namespace tune
