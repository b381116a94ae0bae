// SPDX-License-Identifier: Apache-2.0
// Threads for RPC handlers that may block (SQLite, workers) or compute, so that gRPC's own threads
// do neither.
//
// Principals share an executor: each task belongs to its caller (server/supervision/acting_for.h).
// The next task to run is that of the caller with the fewest running threads, and among equals of
// the one that was served the longest time ago. Only operators may use all threads or all of the
// queue. A caller's share is the thread while its task runs, and a place until its answer was sent:
// a caller that does not read its answers delays only its own next ones.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/supervision/acting_for.h"

namespace tune::server {

// Lowers the priority of the calling thread below all others'.
void LowerThisThread();

// Thread-safe. Threads start when they are first needed.
class Executor {
 public:
  // A thread of low priority runs when no other thread of the daemon wants the processor.
  enum class Priority { kNormal, kLow };
  using Ticket = uint64_t;

  // A principal that is no operator uses at most `threads_per_principal` of the threads; 0: three
  // quarters of them.
  Executor(size_t threads_max, size_t queue_max, Priority priority = Priority::kNormal,
           size_t threads_per_principal = 0);
  ~Executor() { Stop(); }

  // Queues a task, which runs for the calling thread's sharer. RESOURCE_EXHAUSTED if the queue, or
  // the caller's part of it, is full; UNAVAILABLE after BeginStop.
  absl::StatusOr<Ticket> Run(std::function<void()> task);
  // Removes a task from the queue. Returns false if it runs or has run.
  bool Drop(Ticket ticket);
  // The place of the calling task: while it is held, its caller has one place less. A task that
  // does not take it returns it when it ends. Null outside of a task. The executor must outlive it.
  using Place = std::shared_ptr<void>;
  static Place ThisPlace();
  // Accepts no more tasks; a running task may check stopping() to end early.
  void BeginStop();
  bool stopping() const { return stopping_; }
  // BeginStop, then runs the queued tasks and joins the threads.
  void Stop();

 private:
  struct Task {
    Ticket ticket;
    Sharer sharer;
    std::function<void()> run;
  };
  struct Share {
    size_t queued = 0;
    size_t running = 0;
    size_t places = 0;    // of running tasks, and of answers that were not taken yet
    uint64_t served = 0;  // when its last task was begun, in tasks of the executor
  };

  void Loop();
  bool MayRun(const Task& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::deque<Task>::iterator NextTask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WhyFull(const Sharer& sharer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Place MakePlace(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t threads_max_;
  const size_t queue_max_;
  const Priority priority_;
  const size_t threads_per_principal_;
  std::atomic<bool> stopping_ = false;  // written under mutex_
  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> queue_ ABSL_GUARDED_BY(mutex_);
  // By principal; only principals that have a task or a place.
  std::map<std::string, Share> shares_ ABSL_GUARDED_BY(mutex_);
  size_t running_of_others_ ABSL_GUARDED_BY(mutex_) = 0;  // for principals that are no operators
  size_t queued_of_others_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  Ticket next_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t served_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The daemon's executors. There is one for each thing a call may block on, so that calls waiting
// for a device never delay calls that read the store.
struct Executors {
  Executor reads{/*threads_max=*/8, /*queue_max=*/256};    // of the store
  Executor waiting{/*threads_max=*/24, /*queue_max=*/128,  // for a space, a device to be probed
                   Executor::Priority::kNormal, /*threads_per_principal=*/8};
  Executor cancels{/*threads_max=*/8, /*queue_max=*/256};  // until what is cancelled has ended
  // Computing for seconds: reports, gates drawn again.
  Executor heavy{/*threads_max=*/3, /*queue_max=*/32, Executor::Priority::kLow,
                 /*threads_per_principal=*/1};
  // Questions about spaces that callers bring.
  Executor spaces{/*threads_max=*/6, /*queue_max=*/64, Executor::Priority::kNormal,
                  /*threads_per_principal=*/2};

  void BeginStop() {
    for (Executor* executor : All()) executor->BeginStop();
  }
  void Stop() {
    for (Executor* executor : All()) executor->Stop();
  }

 private:
  std::vector<Executor*> All() { return {&reads, &waiting, &cancels, &heavy, &spaces}; }
};

}  // namespace tune::server
