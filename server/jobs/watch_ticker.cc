// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/watch_ticker.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/contained.h"
#include "base/plural.h"
#include "base/status_macros.h"

namespace tune::server {
namespace {

bool IsBounded(const WatchClaim& claim) {
  return claim.kind == WatchClaim::Kind::kWatcher || claim.kind == WatchClaim::Kind::kOwner;
}

// Watches, and how many of them are one principal's.
struct Held {
  size_t all = 0;
  size_t own = 0;

  void Count(bool is_own) {
    ++all;
    if (is_own) ++own;
  }
  // May the principal have one more of so many?
  bool LeavesEnoughOf(size_t most) const { return all < most && own < most - all; }
};

}  // namespace

absl::Status WatchTicker::Add(std::shared_ptr<Watcher> watcher) {
  {
    MutexLock lock(mutex_);
    if (!stopping_) {
      RETURN_IF_ERROR(CheckShare(*watcher));
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

absl::Status WatchTicker::CheckShare(const Watcher& watcher) const {
  const WatchClaim claim = watcher.claim();
  if (!IsBounded(claim)) return absl::OkStatus();
  const int64_t id = watcher.job_id();
  Held all;
  Held of_job;
  for (const auto& other : watchers_) {
    const WatchClaim held = other->claim();
    if (!IsBounded(held)) continue;
    const bool is_own = held.principal == claim.principal;
    all.Count(is_own);
    if (other->job_id() == id) of_job.Count(is_own);
  }
  const bool owns_job = claim.kind == WatchClaim::Kind::kOwner;
  if (owns_job && all.own < options_.watchers_per_job_max) return absl::OkStatus();
  if (id != 0 && !of_job.LeavesEnoughOf(options_.watchers_per_job_max)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(Counted(of_job.all, "client watches", "clients watch"), " job ", id,
                     " already, ", of_job.own, " of them of ", claim.principal,
                     "; `tunectl job list` says how it does without watching, or start tunerd "
                     "with a larger --watchers-per-job"));
  }
  if (!all.LeavesEnoughOf(options_.watchers_max)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        Counted(all.all, "client watches", "clients watch"), " jobs already, ", all.own,
        " of them of ", claim.principal,
        "; `tunectl job list` says how they do without watching, or start tunerd with a larger "
        "--watchers"));
  }
  return absl::OkStatus();
}

size_t WatchTicker::watchers() const {
  MutexLock lock(mutex_);
  return static_cast<size_t>(
      std::count_if(watchers_.begin(), watchers_.end(),
                    [](const auto& watcher) { return IsBounded(watcher->claim()); }));
}

void WatchTicker::Remove(const Watcher* watcher) {
  std::shared_ptr<Watcher> removed;  // destroyed outside the lock
  MutexLock lock(mutex_);
  auto it = std::find_if(watchers_.begin(), watchers_.end(),
                         [&](const auto& other) { return other.get() == watcher; });
  if (it == watchers_.end()) return;
  removed = std::move(*it);
  watchers_.erase(it);
}

void WatchTicker::Poke() {
  MutexLock lock(mutex_);
  poked_ = true;
  changed_.notify_all();
}

void WatchTicker::Stop() {
  std::thread thread;
  std::vector<std::shared_ptr<Watcher>> watchers;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    thread.swap(thread_);
    watchers.swap(watchers_);
    changed_.notify_all();
  }
  if (thread.joinable()) thread.join();
  for (const auto& watcher : watchers) {
    Tick(*watcher).IgnoreError();
    watcher->Close();
  }
}

absl::Status WatchTicker::Tick(Watcher& watcher) {
  const absl::Status ticked = Contained([&] { watcher.Tick(); });
  if (!ticked.ok()) spdlog::error("a watch is ended: {}", ticked.ToString());
  return ticked;
}

void WatchTicker::Loop() {
  while (true) {
    std::vector<std::shared_ptr<Watcher>> watchers;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && watchers_.empty()) changed_.wait(lock.native());
      changed_.wait_for(lock.native(), absl::ToChronoMilliseconds(options_.period),
                        [this]()
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || poked_; });
      if (stopping_) return;
      poked_ = false;
      watchers = watchers_;
    }
    for (const auto& watcher : watchers) {
      if (!Tick(*watcher).ok()) Remove(watcher.get());
    }
  }
}

}  // namespace tune::server
