// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/watch_ticker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tune::server {

absl::Status WatchTicker::Add(std::shared_ptr<Watcher> watcher) {
  {
    std::lock_guard lock(mutex_);
    if (!stopping_) {
      const int64_t id = watcher->job_id();
      const auto same = static_cast<size_t>(
          std::count_if(watchers_.begin(), watchers_.end(),
                        [id](const auto& other) { return other->job_id() == id; }));
      if (id != 0 && same >= options_.watchers_per_job_max) {
        return absl::ResourceExhaustedError(
            absl::StrCat(same, " clients watch job ", id,
                         " already; `tunectl job list` says how it does without watching, or "
                         "start tunerd with a larger --watchers-per-job"));
      }
      if (watchers_.size() >= options_.watchers_max) {
        return absl::ResourceExhaustedError(
            absl::StrCat(watchers_.size(),
                         " clients watch jobs already; `tunectl job list` says how they do "
                         "without watching, or start tunerd with a larger --watchers"));
      }
      watchers_.push_back(std::move(watcher));
      poked_ = true;
      if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
      changed_.notify_all();
      return absl::OkStatus();
    }
  }
  watcher->Close();
  return absl::OkStatus();
}

size_t WatchTicker::watchers() const {
  std::lock_guard lock(mutex_);
  return watchers_.size();
}

void WatchTicker::Remove(const Watcher* watcher) {
  std::shared_ptr<Watcher> removed;  // destroyed outside the lock
  std::lock_guard lock(mutex_);
  auto it = std::find_if(watchers_.begin(), watchers_.end(),
                         [&](const auto& other) { return other.get() == watcher; });
  if (it == watchers_.end()) return;
  removed = std::move(*it);
  watchers_.erase(it);
}

void WatchTicker::Poke() {
  std::lock_guard lock(mutex_);
  poked_ = true;
  changed_.notify_all();
}

void WatchTicker::Stop() {
  std::thread thread;
  std::vector<std::shared_ptr<Watcher>> watchers;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    thread.swap(thread_);
    watchers.swap(watchers_);
    changed_.notify_all();
  }
  if (thread.joinable()) thread.join();
  for (const auto& watcher : watchers) {
    watcher->Tick();
    watcher->Close();
  }
}

void WatchTicker::Loop() {
  while (true) {
    std::vector<std::shared_ptr<Watcher>> watchers;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !watchers_.empty(); });
      changed_.wait_for(lock, absl::ToChronoMilliseconds(options_.period),
                        [this] { return stopping_ || poked_; });
      if (stopping_) return;
      poked_ = false;
      watchers = watchers_;
    }
    for (const auto& watcher : watchers) watcher->Tick();
  }
}

}  // namespace tune::server
