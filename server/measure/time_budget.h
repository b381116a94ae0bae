// SPDX-License-Identifier: Apache-2.0
// How long a search may go on: until its time is spent, its caller cancels it, or it is ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/cancelled.h"
#include "base/steady_time.h"

namespace tune::server {

// Thread-safe.
class TimeBudget {
 public:
  explicit TimeBudget(Cancelled cancelled) : cancelled_(std::move(cancelled)) {
    Limit(absl::InfiniteDuration());
  }

  // Sets the rest of the time, from now on.
  void Limit(absl::Duration time) {
    deadline_ns_ = absl::ToUnixNanos(SteadyNow() + time);  // of no end: the largest there is
  }
  absl::Duration left() const {
    const int64_t deadline_ns = deadline_ns_;
    if (deadline_ns == std::numeric_limits<int64_t>::max()) return absl::InfiniteDuration();
    return absl::FromUnixNanos(deadline_ns) - SteadyNow();
  }
  void End() { ended_ = true; }
  bool IsOver() const { return ended_ || IsSpent() || IsCancelled(); }
  // Turns CANCELLED into DEADLINE_EXCEEDED, with this message, if the time ended it.
  absl::Status Explain(const absl::Status& status, const std::string& message) const {
    if (!absl::IsCancelled(status) || !IsSpent() || IsCancelled()) return status;
    return absl::DeadlineExceededError(message);
  }

 private:
  bool IsSpent() const { return left() <= absl::ZeroDuration(); }
  bool IsCancelled() const { return cancelled_ && cancelled_(); }

  const Cancelled cancelled_;
  std::atomic<int64_t> deadline_ns_;
  std::atomic<bool> ended_{false};
};

}  // namespace tune::server
