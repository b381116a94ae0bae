// SPDX-License-Identifier: Apache-2.0
// The time for deadlines, budgets and durations. It goes on evenly when somebody sets the clock;
// stamps that are shown or stored are of absl::Now().
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

// What is left until a time of SteadyNow, for waits; at least nothing, at most a day.
inline std::chrono::milliseconds LeftUntil(absl::Time deadline) {
  const absl::Duration left = deadline - SteadyNow();
  return absl::ToChronoMilliseconds(left < absl::ZeroDuration() ? absl::ZeroDuration()
                                                                : std::min(left, absl::Hours(24)));
}

}  // namespace tune
