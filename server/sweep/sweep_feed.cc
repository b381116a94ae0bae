// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/sweep_feed.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tune::server {

void SweepFeed::Update(SweepView view) {
  std::lock_guard lock(mutex_);
  view_ = std::move(view);
  ++version_;
}

void SweepFeed::AddTrial(const Trial& trial) {
  std::lock_guard lock(mutex_);
  trials_.push_back(trial);
  if (trials_.size() > kTrialsKept) trials_.pop_front();
  ++trial_count_;
  ++version_;
}

SweepView SweepFeed::view() const {
  std::lock_guard lock(mutex_);
  return view_;
}

SweepFeed::Cursor SweepFeed::Now() const {
  std::lock_guard lock(mutex_);
  return Cursor{.version = 0, .next_trial = trial_count_};
}

std::optional<SweepFeed::Event> SweepFeed::ReadSince(Cursor& cursor) const {
  std::lock_guard lock(mutex_);
  if (cursor.version == version_) return std::nullopt;
  Event event{.view = view_};
  const uint64_t missing = trial_count_ - cursor.next_trial;
  const size_t count = std::min<uint64_t>(missing, trials_.size());
  event.trials.assign(trials_.end() - count, trials_.end());
  cursor = Cursor{.version = version_, .next_trial = trial_count_};
  return event;
}

absl::Status WatchTicker::Add(std::shared_ptr<Watcher> watcher) {
  {
    std::lock_guard lock(mutex_);
    if (!stopping_) {
      const int64_t id = watcher->sweep_id();
      const auto same = static_cast<size_t>(
          std::count_if(watchers_.begin(), watchers_.end(),
                        [id](const auto& other) { return other->sweep_id() == id; }));
      if (same >= options_.watchers_per_sweep_max) {
        return absl::ResourceExhaustedError(
            absl::StrCat(same, " clients watch sweep ", id,
                         " already; `tunectl sweep list` says how it does without watching, or "
                         "start tunerd with a larger --watchers-per-sweep"));
      }
      if (watchers_.size() >= options_.watchers_max) {
        return absl::ResourceExhaustedError(
            absl::StrCat(watchers_.size(),
                         " clients watch sweeps already; `tunectl sweep list` says how they do "
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
