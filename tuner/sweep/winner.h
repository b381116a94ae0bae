// SPDX-License-Identifier: Apache-2.0
// Naming the winner of a sweep. The fastest of many noisy estimates is fast partly by luck, and two
// processes do not time the same kernel alike. So the top few are measured again, in rounds, each
// round in a fresh process, and only those numbers count. Source: docs/measurement.md.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tuner/sweep/evaluator.h"
#include "tuner/trial.h"

namespace tune {

struct ConfirmPolicy {
  int rounds_max = 8;
  int rounds_min = 3;  // whatever time they take
  // Rounds come so many at once; after each batch it is seen whether they settle it: whether the
  // ratio of each tie to the fastest is known to +-precision.
  int batch = 4;
  double precision = 0.002;
  // No further round is begun that would probably end later.
  absl::Duration time = absl::Seconds(20);
  // A round that is not over by then does not count, be it one of the least. Where the finalists
  // would fill it with as few rounds as there may be, the slowest are left out.
  absl::Duration limit = absl::InfiniteDuration();
};

// The finalists of a search, measured again.
struct Finals {
  int rounds = 0;
  // Fastest of the search first. The samples_ns of one that is ok are those of its rounds, one
  // round after the other, equally many of each; its median is the median of the rounds' medians,
  // and its interval that of the rounds.
  std::vector<Trial> trials;
};

// Measures the top 8 of the search and the default config again, until they are told apart or the
// policy ends it. One that is not ok in some round is not ok. FAILED_PRECONDITION if no trial is
// ok; DEADLINE_EXCEEDED if not one round was over within the limit.
absl::StatusOr<Finals> MeasureFinals(const std::vector<Trial>& trials, const Config& default_config,
                                     const ConfirmPolicy& policy, Evaluator& evaluator);

struct Winner {
  Trial best;
  std::optional<Trial> default_trial;
  std::vector<Trial> ties;  // not told apart from the best, the best not among them
};

// Of the fastest finalist and those whose ratio to it, by paired rounds, may be 1: the one with the
// fewest registers, then the least shared memory, then the lowest config text, unless it was
// measured more than 0.5 % slower than the fastest. It is never slower than the default config.
// Depends on nothing but its arguments, so a verdict can be had again from stored trials.
// FAILED_PRECONDITION if no finalist is ok.
absl::StatusOr<Winner> NameWinner(const Finals& finals, const Config& default_config);

// Is the interval wider than a fifth of the latency? Then the host was too noisy to tell how fast
// the config is, or whether it is faster than another. False without an interval.
bool TooNoisyToTell(const Measurement& measurement);

}  // namespace tune
