// SPDX-License-Identifier: Apache-2.0
// Plays a strategy on a recorded space, through the loop that real sweeps go through.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner/device/replay/recording.h"
#include "tuner/strategies/strategy.h"
#include "tuner/sweep/sweep.h"

namespace tune::replay {

struct PlayOptions {
  std::string strategy;  // empty: the default one
  uint64_t seed = 1;
  SweepBudget budget;  // seconds are those of the recorded trials
  uint32_t in_flight = 1;
  std::vector<PriorObservation> prior = {};
  const std::atomic<bool>* cancelled = nullptr;
};

// A replayed sweep, one evaluation for each trial: a config is asked for once, and a failed one
// counts.
struct Played {
  SweepSummary summary;
  std::vector<double> best_ns;      // the best latency after each trial; infinite before the first
  std::vector<double> overhead_us;  // of each trial: Ask and Tell
  double recorded_seconds = 0;      // what the trials took when they were recorded
};

// INVALID_ARGUMENT: no such strategy; a budget in seconds for a recording that has none.
absl::StatusOr<Played> Play(const RecordedSpace& space, const PlayOptions& options);

// A recording as prior knowledge of another: at most `trials_max` of it, the fastest half of those
// first, the rest spread evenly over the slower ones.
std::vector<PriorObservation> PriorOf(const Recording& recording, uint32_t source,
                                      size_t trials_max);

inline constexpr size_t kPriorTrialsMax = 5000;

}  // namespace tune::replay
