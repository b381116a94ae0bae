// SPDX-License-Identifier: Apache-2.0
// Threads for RPC handlers that may block (SQLite, workers) or compute, so that gRPC's own threads
// do neither.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

namespace tune::server {

// From now on the calling thread gives way to all others.
void LowerThisThread();

// Thread-safe. Threads start when they are first needed.
class Executor {
 public:
  // Threads of low priority get a processor when no other thread of the daemon wants it.
  enum class Priority { kNormal, kLow };
  using Ticket = uint64_t;

  Executor(size_t threads_max, size_t queue_max, Priority priority = Priority::kNormal)
      : threads_max_(threads_max), queue_max_(queue_max), priority_(priority) {}
  ~Executor() { Stop(); }

  // RESOURCE_EXHAUSTED when the queue is full, UNAVAILABLE after BeginStop.
  absl::StatusOr<Ticket> Run(std::function<void()> task);
  // Takes a task out of the queue. False if it runs or has run.
  bool Drop(Ticket ticket);
  // Nothing more is taken; what runs may ask whether it should end.
  void BeginStop();
  bool stopping() const { return stopping_; }
  // The same, then runs what is queued and joins the threads.
  void Stop();

 private:
  struct Task {
    Ticket ticket;
    std::function<void()> run;
  };

  void Loop();

  const size_t threads_max_;
  const size_t queue_max_;
  const Priority priority_;
  std::atomic<bool> stopping_ = false;  // written under mutex_
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<Task> queue_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  Ticket next_ticket_ = 0;
};

// The daemon's. A call is run by the executor of what it may wait for, so that it never waits for
// what it has nothing to do with.
struct Executors {
  Executor reads{/*threads_max=*/8, /*queue_max=*/256};     // of the store
  Executor waiting{/*threads_max=*/24, /*queue_max=*/128};  // for a space, a device to be probed
  Executor cancels{/*threads_max=*/8, /*queue_max=*/256};   // until what is cancelled has ended
  // Computing for seconds: reports, gates drawn again.
  Executor heavy{/*threads_max=*/2, /*queue_max=*/32, Executor::Priority::kLow};

  void BeginStop() {
    for (Executor* executor : {&reads, &waiting, &cancels, &heavy}) executor->BeginStop();
  }
  void Stop() {
    for (Executor* executor : {&reads, &waiting, &cancels, &heavy}) executor->Stop();
  }
};

}  // namespace tune::server
