// SPDX-License-Identifier: Apache-2.0
// How fast a sweep goes and when it will be done. Pure: time is passed in.
#pragma once

#include <cstdint>
#include <deque>

#include "absl/time/time.h"

namespace tune::server {

// The rate of the last 15 seconds, but over 8 trials at least: a sweep that starts slowly, or whose
// trials take seconds, still gets an honest estimate. Not thread-safe.
class ProgressMeter {
 public:
  explicit ProgressMeter(absl::Time start) : start_(start), window_start_(start) {}

  // Counts a trial that was really run and has finished.
  void Finished(absl::Time now);

  double ElapsedSeconds(absl::Time now) const { return absl::ToDoubleSeconds(now - start_); }
  // 0 before the first trial.
  double TrialsPerSecond(absl::Time now) const;
  // The time for `trials` more, but no longer than the time budget (0: none) allows; 0 if unknown.
  double RemainingSeconds(absl::Time now, uint64_t trials, double budget_seconds) const;

 private:
  absl::Time start_;
  absl::Time window_start_;
  std::deque<absl::Time> window_;
};

}  // namespace tune::server
