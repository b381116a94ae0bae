// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/progress_meter.h"

#include <algorithm>

namespace tune::server {
namespace {

constexpr absl::Duration kWindow = absl::Seconds(15);
constexpr size_t kTrialsMin = 8;

}  // namespace

void ProgressMeter::Finished(absl::Time now) {
  window_.push_back(now);
  while (window_.size() > kTrialsMin && window_.front() < now - kWindow) {
    window_start_ = window_.front();
    window_.pop_front();
  }
}

double ProgressMeter::TrialsPerSecond(absl::Time now) const {
  const double seconds = absl::ToDoubleSeconds(now - window_start_);
  return seconds > 0 ? window_.size() / seconds : 0;
}

double ProgressMeter::RemainingSeconds(absl::Time now, uint64_t trials,
                                       double budget_seconds) const {
  const double rate = TrialsPerSecond(now);
  double seconds = rate > 0 ? trials / rate : 0;
  if (budget_seconds > 0) {
    const double left = std::max(0.0, budget_seconds - ElapsedSeconds(now));
    seconds = rate > 0 ? std::min(seconds, left) : left;
  }
  return seconds;
}

}  // namespace tune::server
