// SPDX-License-Identifier: Apache-2.0
// Threads for RPC handlers that may block (SQLite, workers), so that gRPC's own threads never do.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"

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
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace tune::server
