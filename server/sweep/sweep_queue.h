// SPDX-License-Identifier: Apache-2.0
// The queue of sweeps: durable in the store, one thread per device takes the oldest.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "db/store.h"
#include "server/supervision/limits.h"
#include "server/sweep/submission.h"
#include "server/sweep/sweep_feed.h"
#include "server/sweep/sweep_view.h"

namespace tune::server {

// How a sweep is asked to stop. Written by the queue, read by the sweep.
struct SweepControl {
  std::atomic<bool> stop = false;       // for whatever reason
  std::atomic<bool> cancelled = false;  // by a user, for good; else the sweep is resumed some day
};

// How a sweep ended. A view whose state is not a final one leaves the sweep in the store as it is,
// for the next start of the daemon.
struct SweepOutcome {
  SweepOutcome(SweepView ended, std::shared_ptr<void> left = nullptr)  // NOLINT: a view will do
      : view(std::move(ended)), remains(std::move(left)) {}
  SweepView view;
  // Processes that are still to end, say: destroyed once everybody knows that the sweep has ended,
  // and before the device's next sweep starts.
  std::shared_ptr<void> remains;
};
using RunSweepJob =
    std::function<SweepOutcome(SweepView view, SweepFeed& feed, const SweepControl& control)>;

// Thread-safe.
class SweepQueue {
 public:
  struct Options {
    size_t unfinished_max = Limits().unfinished_sweeps;
    uint32_t deaths_max = Limits().sweep_deaths;
    size_t views_kept_max = 16;  // finished sweeps that need no look into the store
    // Inside tunectl: what a daemon left queued or running stays as it is, for a daemon to take up.
    bool embedded = false;
    // The process that owns the store, if this one only reads it.
    std::string other_owner;
  };

  static absl::StatusOr<std::unique_ptr<SweepQueue>> Start(const Options& options, db::Store& store,
                                                           WatchTicker& ticker, RunSweepJob run);
  ~SweepQueue() { Stop(); }

  // Durable when it returns. A known idempotency key gives the sweep there is. RESOURCE_EXHAUSTED
  // when too many are unfinished.
  absl::StatusOr<SweepView> Submit(const Submission& submission);
  // Returns when the sweep has ended; what it ran may still be on its way out, and the device waits
  // for it. DEADLINE_EXCEEDED: it will stop, but has not yet.
  absl::StatusOr<SweepView> Cancel(int64_t id, absl::Time deadline);
  absl::StatusOr<SweepView> Get(int64_t id);
  absl::StatusOr<std::vector<SweepView>> List(uint32_t limit);  // newest first
  // The feed of an unfinished sweep; a feed that never changes for a finished one. NOT_FOUND;
  // FAILED_PRECONDITION: left by an earlier server and not taken up.
  absl::StatusOr<std::shared_ptr<SweepFeed>> Feed(int64_t id);

  struct Counts {
    uint32_t queued = 0;
    uint32_t running = 0;
  };
  Counts counts() const;

  // Tells the running sweeps to stop; they stay unfinished in the store.
  void BeginStop();
  // The same, and waits for them. Idempotent.
  void Stop();

 private:
  struct Live {
    std::string device_id;
    std::string idempotency_key;
    std::shared_ptr<SweepFeed> feed;
    SweepControl control;
    bool running = false;  // guarded by mutex_
  };
  struct Device {
    std::deque<int64_t> waiting;
    int64_t running = 0;
    std::thread thread;
  };

  SweepQueue(const Options& options, db::Store& store, WatchTicker& ticker, RunSweepJob run)
      : options_(options), store_(store), ticker_(ticker), run_(std::move(run)) {}

  // Takes a stored sweep into the queue unless that has been done.
  void Enqueue(const SweepView& view);
  void Loop(Device& device);
  void RunOne(int64_t id, Live& live);
  void Finish(int64_t id, Live& live, SweepView view);
  // Takes up what an earlier daemon left: sweeps that a daemon died with after the others, and not
  // more often than is allowed. Ends what an earlier tunectl left, which is nobody's.
  absl::Status Inherit();
  // False if daemons died with it too often, or its row cannot be changed.
  bool MayRunAgain(db::SweepRow& row);
  absl::Status Interrupt(SweepView view);
  // Says to each that waits how many are ahead of it. REQUIRES: mutex_ is held.
  void TellWaiting(const std::string& device_id, Device& device);
  // Waits out a full or failing disk, until the daemon stops.
  absl::Status StoreEnd(Live& live, const SweepView& view);
  void Forget(int64_t id, Live& live, SweepView view);
  // Cancels a sweep that has been taken from those that wait.
  absl::Status CancelWaiting(int64_t id, Live& live);
  // Cancels a sweep that is not in this queue.
  absl::StatusOr<SweepView> CancelLeft(int64_t id);
  // A sweep as the store has it.
  absl::StatusOr<SweepView> ViewOf(const db::SweepRow& row);

  const Options options_;
  db::Store& store_;
  WatchTicker& ticker_;
  const RunSweepJob run_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::map<int64_t, std::shared_ptr<Live>> live_;
  std::map<std::string, Device> devices_;  // nodes stay where they are
  std::map<int64_t, SweepView> finished_;  // the newest few
  size_t submitting_ = 0;
  bool stopping_ = false;
};

}  // namespace tune::server
