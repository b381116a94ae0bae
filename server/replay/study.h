// SPDX-License-Identifier: Apache-2.0
// A study: every strategy on every recording with every seed, on all cores.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/replay/recording_source.h"
#include "tune/v1/replay.pb.h"
#include "tuner/device/replay/recording.h"

namespace tune::server {

struct StudyPlan {
  std::vector<replay::RecordedSpace> spaces;  // each with a config that was ok
  std::vector<std::string> strategies;        // that there are
  uint32_t seeds = 0;
  uint32_t budget_trials = 0;
  uint32_t in_flight = 1;
  PriorRecordings prior;
  bool score = false;
};

// Called now and then, from one thread, with the number of finished runs and of all.
using StudyProgress = std::function<void(uint32_t done, uint32_t runs)>;

// Equal plans give equal figures, except for the overheads. CANCELLED once `cancelled` is set.
absl::StatusOr<v1::StrategyComparison> RunStudy(const StudyPlan& plan,
                                                const std::atomic<bool>& cancelled,
                                                const StudyProgress& progress);

}  // namespace tune::server
