// SPDX-License-Identifier: Apache-2.0
// The sweep loop: asks the strategy for configs, evaluates them, stores the trials and tells the
// strategy their results, until the strategy is done or the budget is spent. Start reading here;
// tuner/strategies/strategy.h and evaluator.h are its two partners.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner/space/space.h"
#include "tuner/strategies/strategy.h"
#include "tuner/sweep/evaluator.h"
#include "tuner/sweep/stop_rules.h"
#include "tuner/trial.h"

namespace tune {

struct SweepSummary {
  uint64_t done = 0;  // finished, reused ones included
  uint64_t reused = 0;
  std::map<Outcome, uint64_t> outcomes;
  std::optional<Trial> best;  // as found; before the winner is confirmed
  bool cancelled = false;
  SweepEnd end = SweepEnd::kNone;  // why nothing more was started
  uint64_t dropped = 0;            // in flight when the time was spent: not tried
};

// Stores, reports and cancels a sweep. All callbacks run on the sweep's thread.
struct SweepHooks {
  // Stores a trial and gives it its id. The trial is durable when it returns; only then is it
  // believed. An error ends the sweep.
  std::function<absl::Status(Trial&)> store;
  // After each finished trial.
  std::function<void(const SweepSummary&, const Trial&)> progress;
  // Checked at least every 50 ms.
  const std::atomic<bool>* cancelled = nullptr;
};

// Tries configs until the strategy is done or the budget is spent. Trials in `known` (from an
// earlier, interrupted sweep of the same key) are told to the strategy and not run again; they
// count against a budget in trials, and are neither stored nor reported as progress. A cancelled
// sweep, and one whose time is spent, keeps the trials that have finished, so far as they are
// stored within a moment, and leaves the rest to the evaluator, which drops it when it measures
// again or is destroyed.
absl::StatusOr<SweepSummary> RunSweep(const Space& space, Strategy& strategy, Evaluator& evaluator,
                                      const SweepBudget& budget, const std::vector<Trial>& known,
                                      const SweepHooks& hooks);

}  // namespace tune
