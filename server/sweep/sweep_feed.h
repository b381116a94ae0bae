// SPDX-License-Identifier: Apache-2.0
// A sweep's state for those who watch it. The sweep writes and never waits for a reader; readers
// that are slow miss old trials, never the newest state.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/supervision/limits.h"
#include "server/sweep/sweep_view.h"

namespace tune::server {

// Thread-safe.
class SweepFeed {
 public:
  static constexpr size_t kTrialsKept = 64;

  explicit SweepFeed(SweepView view) : view_(std::move(view)) {}

  void Update(SweepView view);
  void AddTrial(const Trial& trial);

  SweepView view() const;

  // Where a reader is. A new reader gets the state now, and trials from then on.
  struct Cursor {
    uint64_t version = 0;
    uint64_t next_trial = 0;
  };
  struct Event {
    SweepView view;
    std::vector<Trial> trials;  // since the cursor, oldest first, at most kTrialsKept
  };
  Cursor Now() const;
  // What has changed since the cursor, which is moved on; nothing if nothing has.
  std::optional<Event> ReadSince(Cursor& cursor) const;

 private:
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  SweepView view_;
  uint64_t version_ = 1;
  std::deque<Trial> trials_;
  uint64_t trial_count_ = 0;  // ever added
};

// Wakes watchers a few times a second, and at once when poked. Its thread runs only while somebody
// watches. Thread-safe.
class WatchTicker {
 public:
  class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual int64_t sweep_id() const = 0;
    // Must not block. May still be called once just after Remove.
    virtual void Tick() = 0;
    // The daemon stops: no more ticks.
    virtual void Close() = 0;
  };

  struct Options {
    absl::Duration period;
    size_t watchers_max = Limits().watchers;
    size_t watchers_per_sweep_max = Limits().watchers_per_sweep;
  };
  explicit WatchTicker(const Options& options) : options_(options) {}
  ~WatchTicker() { Stop(); }

  // After Stop a watcher is closed at once. RESOURCE_EXHAUSTED: too many watch.
  absl::Status Add(std::shared_ptr<Watcher> watcher);
  void Remove(const Watcher* watcher);
  void Poke();
  void Stop();
  size_t watchers() const;

 private:
  void Loop();

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::vector<std::shared_ptr<Watcher>> watchers_;
  bool poked_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tune::server
