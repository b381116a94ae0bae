// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/feed.h"

#include <algorithm>
#include <utility>

namespace tune::server {

void Feed::Touch() {
  MutexLock lock(mutex_);
  ++version_;
}

void Feed::AddStep(Step step) {
  const size_t bytes = step->ByteSizeLong();
  MutexLock lock(mutex_);
  steps_.push_back({std::move(step), bytes});
  step_bytes_ += bytes;
  while (steps_.size() > kStepsKept || (steps_.size() > 1 && step_bytes_ > kStepBytesKept)) {
    step_bytes_ -= steps_.front().bytes;
    steps_.pop_front();
  }
  ++step_count_;
  ++version_;
}

void Feed::AddResult(Step result) {
  MutexLock lock(mutex_);
  results_.push_back(std::move(result));
  ++version_;
}

void Feed::End(const absl::Status& status) {
  MutexLock lock(mutex_);
  if (ended_) return;
  ended_ = true;
  status_ = status;
  ++version_;
}

std::vector<Feed::Step> Feed::results() const {
  MutexLock lock(mutex_);
  return results_;
}

std::optional<Feed::News> Feed::ReadSince(Cursor& cursor) const {
  MutexLock lock(mutex_);
  if (cursor.version == version_) return std::nullopt;
  News news{.ended = ended_, .status = status_};
  const uint64_t missing = step_count_ - cursor.next_step;
  const size_t count = std::min<uint64_t>(missing, steps_.size());
  for (size_t i = steps_.size() - count; i < steps_.size(); ++i) {
    news.steps.push_back(steps_[i].step);
  }
  news.results.assign(results_.begin() + static_cast<std::ptrdiff_t>(cursor.next_result),
                      results_.end());
  cursor = {.version = version_, .next_step = step_count_, .next_result = results_.size()};
  return news;
}

}  // namespace tune::server
