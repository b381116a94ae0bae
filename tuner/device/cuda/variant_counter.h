// SPDX-License-Identifier: Apache-2.0
// Counts one variant: its launch, and nothing of what prepares or checks it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tuner/counters/counting.h"
#include "tuner/device/cuda/harness.h"
#include "tuner/device/cuda/loaded_program.h"
#include "tuner/device/cuda/metric_sets.h"
#include "tuner/device/cuda/range_profiler.h"
#include "tuner/device/prepared_problem.h"

namespace tune::cuda {

class VariantCounter {
 public:
  VariantCounter(Harness& harness, RangeProfiler& profiler, PreparedProblem& problem)
      : harness_(harness), profiler_(profiler), problem_(problem) {}

  // Fills in the report, including counters that this host does not let us read. Errors are those
  // of the variant (see LoadedProgram::Launch). Every counted launch has the same inputs; the
  // results of the last one are checked.
  absl::Status Count(const LoadedProgram& program, const CountRequest& request,
                     CountReport& report);

 private:
  absl::Status CountGroup(const RangeProfiler::Work& work, const MetricGroup& group, int readings,
                          CountReport& report);
  absl::Status Prepare(const LoadedProgram& program, CacheMode mode);

  Harness& harness_;
  RangeProfiler& profiler_;
  PreparedProblem& problem_;
};

}  // namespace tune::cuda
