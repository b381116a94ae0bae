// SPDX-License-Identifier: Apache-2.0
// Naming the winner of a sweep. The fastest of many noisy estimates is fast partly by luck, and two
// processes do not time the same kernel alike. So the top few are measured again, in rounds, each
// round in a fresh process, and only those numbers count. Source: docs/measurement.md.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
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
  // A round that ends later does not count, even if it is one of `rounds_min`. If the finalists
  // would exceed the limit with the fewest rounds allowed, the slowest are left out.
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

// Measures the top 8 of the search and the default config again, until they are distinguished or
// the policy ends it. A config that is not ok in some round is not ok. FAILED_PRECONDITION if no
// trial is ok; DEADLINE_EXCEEDED if not one round ended within the limit.
absl::StatusOr<Finals> MeasureFinals(const std::vector<Trial>& trials, const Config& default_config,
                                     const ConfirmPolicy& policy, Evaluator& evaluator);

struct Winner {
  Trial best;
  std::optional<Trial> default_trial;
  std::vector<Trial> ties;  // not told apart from the best, the best not among them
};

// The fewest rounds that name a tie: an interval of one or two rounds is unbounded, so that all
// configs would tie.
inline constexpr size_t kRoundsToTell = 3;

// Ties are finalists whose ratio to the fastest, by paired rounds, may be 1 and whose latency is no
// further from the fastest's than the wider of the two intervals is wide. The best is the tie with
// the fewest registers, then the least shared memory, then the lowest config text, unless it was
// measured more than 0.5 % slower than the fastest. It is never slower than the default config.
// Depends on nothing but its arguments, so a verdict can be had again from stored trials.
// FAILED_PRECONDITION if no finalist is ok.
absl::StatusOr<Winner> NameWinner(const Finals& finals, const Config& default_config);

// How the best stands to the default config. Values are sent: do not renumber.
enum class DefaultStanding {
  kUnknown = 0,    // the default was not ok
  kSame = 1,       // the default is the best
  kFaster = 2,     // the best is faster, beyond the noise of the rounds
  kTie = 3,        // they cannot be told apart
  kUndecided = 4,  // the best may be faster; there were too few rounds, or they varied too much
};

struct OverDefault {
  DefaultStanding standing = DefaultStanding::kUnknown;
  double speedup = 0;  // how many times as fast the best is; 0 if unknown
  // The interval of `speedup` by paired rounds, at 95 %; 0 with fewer than kRoundsToTell rounds.
  double speedup_low = 0;
  double speedup_high = 0;
  std::string verdict;  // the same in words, for all views: "the best is 2.69 times as fast"
};

// `rounds`: how many rounds the samples of both trials are of; 0: neither was measured again.
// `tied`: the default is among the winner's ties. A default that is null was not ok.
OverDefault StandToDefault(const Trial& best, const Trial* default_trial, size_t rounds, bool tied);

}  // namespace tune
