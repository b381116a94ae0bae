// SPDX-License-Identifier: Apache-2.0
// Wakes the watchers of jobs a few times a second, and at once when poked. Its thread runs only
// while there are watchers.
//
// Watches are bounded by principal: nobody may have more of them, in all or of one job, than it
// leaves to others. A stream that carries its job, since the job ends with it, is bounded by the
// queue and never refused here.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/supervision/limits.h"

namespace tune::server {

struct WatchClaim {
  enum class Kind {
    kWatcher,
    kOwner,     // of the job: what others watch takes nothing from it
    kOperator,  // is never refused
    kCarrier,   // the job, or the check, ends with the stream
  };
  std::string principal;
  Kind kind = Kind::kWatcher;
};

// Thread-safe.
class WatchTicker {
 public:
  class Watcher {
   public:
    virtual ~Watcher() = default;
    // The job that is followed; 0: none yet.
    virtual int64_t job_id() const = 0;
    // May change while it watches.
    virtual WatchClaim claim() const { return {}; }
    // Must not block. May still be called once just after Remove.
    virtual void Tick() = 0;
    // The daemon stops: no more ticks.
    virtual void Close() = 0;
  };

  struct Options {
    absl::Duration period;
    size_t watchers_max = Limits().watchers;
    size_t watchers_per_job_max = Limits().watchers_per_job;
  };
  explicit WatchTicker(const Options& options) : options_(options) {}
  ~WatchTicker() { Stop(); }

  // After Stop a watcher is closed at once. RESOURCE_EXHAUSTED: its principal has its share of
  // watches already.
  absl::Status Add(std::shared_ptr<Watcher> watcher);
  void Remove(const Watcher* watcher);
  void Poke();
  void Stop();
  // Number of the watchers that are bounded.
  size_t watchers() const;

 private:
  void Loop();
  // An exception of one watcher is not the others'.
  static absl::Status Tick(Watcher& watcher);
  absl::Status CheckShare(const Watcher& watcher) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Watcher>> watchers_ ABSL_GUARDED_BY(mutex_);
  bool poked_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tune::server
