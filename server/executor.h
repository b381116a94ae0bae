// SPDX-License-Identifier: Apache-2.0
// Threads for RPC handlers that may block (SQLite, workers), so that gRPC's own threads never do.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace tune::server {

// Thread-safe. Threads start when they are first needed.
class Executor {
 public:
  Executor(size_t threads_max, size_t queue_max)
      : threads_max_(threads_max), queue_max_(queue_max) {}
  ~Executor() { Stop(); }

  // RESOURCE_EXHAUSTED when the queue is full, UNAVAILABLE after Stop.
  absl::Status Run(std::function<void()> task);
  // Runs what is queued, then joins the threads.
  void Stop();

 private:
  void Loop();

  const size_t threads_max_;
  const size_t queue_max_;
  absl::Mutex mutex_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tune::server
