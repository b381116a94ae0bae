// SPDX-License-Identifier: Apache-2.0
// A sweep at a moment: its row, its progress, its result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/sweep_store.h"
#include "server/sweep/warm_start.h"
#include "tuner/config.h"
#include "tuner/roofline/roofline.h"
#include "tuner/sweep/stop_rules.h"
#include "tuner/sweep/winner.h"
#include "tuner/trial.h"

namespace tune::server {

struct SweepProgress {
  uint64_t space_size = 0;
  uint64_t planned = 0;
  uint64_t done = 0;    // reused ones included
  uint64_t reused = 0;  // measured by earlier sweeps
  std::map<Outcome, uint64_t> outcomes;
  double elapsed_seconds = 0;
  double trials_per_second = 0;
  double remaining_seconds = 0;  // 0 when unknown
  std::optional<Config> best_config;
  double best_latency_ns = 0;
  uint64_t worker_restarts = 0;
  uint64_t compile_cache_hits = 0;
};
TUNE_FIELDS(SweepProgress, space_size, planned, done, reused, outcomes, elapsed_seconds,
            trials_per_second, remaining_seconds, best_config, best_latency_ns, worker_restarts,
            compile_cache_hits);

struct SweepResult {
  Trial best;
  std::optional<Trial> default_trial;
  std::vector<Trial> ties;
  uint32_t confirm_rounds = 0;  // 0: not measured again
  Bound bound = Bound::kUnknown;
  double ceiling = 0;
  CeilingSource ceiling_source = CeilingSource::kUnknown;
};
TUNE_FIELDS(SweepResult, best, default_trial, ties, confirm_rounds, bound, ceiling, ceiling_source);

// The default config's trial if it was ok; else null.
inline const Trial* OkDefault(const SweepResult& result) {
  const std::optional<Trial>& trial = result.default_trial;
  return trial && trial->outcome == Outcome::kOk ? &*trial : nullptr;
}

// Conclusions from a result, for every view of it.
struct SweepFigures {
  double speedup_over_default = 0;  // how many times as fast the best is; 0 if that is not known
  double speedup_low = 0;           // its interval; 0 if too few rounds tell one
  double speedup_high = 0;
  DefaultStanding default_standing = DefaultStanding::kUnknown;
  std::string default_verdict;  // the standing in words
  bool too_noisy = false;       // to believe the best's latency
};
TUNE_FIELDS(SweepFigures, speedup_over_default, speedup_low, speedup_high, default_standing,
            default_verdict, too_noisy);

inline SweepFigures FiguresOf(const SweepResult& result) {
  const Trial* const trial = OkDefault(result);
  const bool tied = trial != nullptr &&
                    std::any_of(result.ties.begin(), result.ties.end(),
                                [&](const Trial& tie) { return tie.config == trial->config; });
  OverDefault over = StandToDefault(result.best, trial, result.confirm_rounds, tied);
  return {.speedup_over_default = over.speedup,
          .speedup_low = over.speedup_low,
          .speedup_high = over.speedup_high,
          .default_standing = over.standing,
          .default_verdict = std::move(over.verdict),
          .too_noisy = TooNoisyToTell(result.best.measurement)};
}

// Options of the search that are not in the sweep's row.
struct SearchOptions {
  uint64_t trials_without_improvement = 0;  // 0: the rule does not apply
  double improvement_chance_min = 0;
  bool no_warm_start = false;
  bool spread = false;  // over all of the sweep's devices that are free, not on one of them
  // The prior that the client sent along; not stored. May be null.
  std::shared_ptr<const WarmStart> prior;
  std::string prior_digest;  // SHA-256 of that prior, hex; stored; empty without one
};

struct SweepView {
  db::SweepRow row;
  bool embedded = false;     // runs, or ran, inside tunectl
  bool interrupted = false;  // that tunectl has gone; it is cancelled, and nobody takes it up
  bool waiting = false;      // for its turn; the job's message says who has the device
  SearchOptions search;
  uint64_t warm_observations = 0;
  std::vector<std::string> warm_sources;
  std::vector<std::string> fixed_params;  // with one possible value in the sweep's space
  SweepEnd end = SweepEnd::kNone;         // why nothing more was tried
  std::string end_message;                // the same for people; empty while it runs
  SweepProgress progress;
  std::optional<SweepResult> result;
};

}  // namespace tune::server
