// SPDX-License-Identifier: Apache-2.0
// The time for deadlines, budgets and durations. It advances evenly when the clock is set; times
// that are shown or stored come from absl::Now().
#pragma once

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace tune {

// absl::Now() as it would be had the clock not been set since this process first asked.
inline absl::Time SteadyNow() {
  using Clock = std::chrono::steady_clock;
  static const absl::Time start = absl::Now();
  static const Clock::time_point began = Clock::now();
  return start + absl::FromChrono(Clock::now() - began);
}

// Returns the time left until `deadline`, which is a time of SteadyNow: at least 0, at most a day.
inline std::chrono::milliseconds LeftUntil(absl::Time deadline) {
  const absl::Duration left = deadline - SteadyNow();
  return absl::ToChronoMilliseconds(left < absl::ZeroDuration() ? absl::ZeroDuration()
                                                                : std::min(left, absl::Hours(24)));
}

}  // namespace tune
