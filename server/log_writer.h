// SPDX-License-Identifier: Apache-2.0
// Writes lines to a descriptor on a thread of its own, and drops lines rather than block a caller.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace tune::server {

// Thread-safe. Lives as long as the process: its thread may hang in a write for good.
class LogWriter {
 public:
  // Makes the line that says how many lines were dropped.
  using DroppedLine = std::function<std::string(uint64_t count)>;
  static constexpr size_t kQueueBytesMax = 1 << 20;

  LogWriter(int fd, DroppedLine dropped);

  // Queues a whole line, with its line feed.
  void Write(std::string line);
  // Waits until all lines are written. Returns false if some were not in time.
  bool Flush(absl::Duration patience);
  // The number of lines that are not written yet. For signal handlers too.
  size_t waiting() const { return waiting_; }

 private:
  void Loop();
  // Returns false if the reader has gone or the disk is full; the line is lost.
  bool WriteOut(const std::string& line);

  const int fd_;
  const DroppedLine dropped_line_;
  std::atomic<size_t> waiting_ = 0;
  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tune::server
