// SPDX-License-Identifier: Apache-2.0
#include "server/log_writer.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

namespace tune::server {

LogWriter::LogWriter(int fd, DroppedLine dropped) : fd_(fd), dropped_line_(std::move(dropped)) {
  std::thread([this] { Loop(); }).detach();
}

void LogWriter::Write(std::string line) {
  MutexLock lock(mutex_);
  if (bytes_ + line.size() > kQueueBytesMax) {
    ++dropped_;
    return;
  }
  bytes_ += line.size();
  lines_.push_back(std::move(line));
  waiting_ = lines_.size();
  changed_.notify_all();
}

bool LogWriter::Flush(absl::Duration patience) {
  MutexLock lock(mutex_);
  return changed_.wait_for(
      lock.native(), absl::ToChronoMilliseconds(patience),
      [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return lines_.empty() && dropped_ == 0; });
}

void LogWriter::Loop() {
  MutexLock lock(mutex_);
  while (true) {
    while (lines_.empty() && dropped_ == 0) changed_.wait(lock.native());
    const bool has_line = !lines_.empty();
    const uint64_t dropped = has_line ? 0 : std::exchange(dropped_, 0);
    // A line stays in the queue until it is written, and counts as waiting.
    const std::string line = has_line ? lines_.front() : dropped_line_(dropped);
    lock.Unlock();
    (void)WriteOut(line);
    lock.Lock();
    if (has_line) {
      bytes_ -= lines_.front().size();
      lines_.pop_front();
    }
    waiting_ = lines_.size();
    changed_.notify_all();
  }
}

bool LogWriter::WriteOut(const std::string& line) {
  for (size_t written = 0; written < line.size();) {
    // A pipe that has room takes this much without blocking.
    pollfd ready = {fd_, POLLOUT, 0};
    if (poll(&ready, 1, -1) < 0 && errno != EINTR) return false;
    const size_t piece = std::min<size_t>(line.size() - written, PIPE_BUF);
    const ssize_t got = write(fd_, line.data() + written, piece);
    if (got < 0 && errno != EINTR && errno != EAGAIN) return false;
    written += static_cast<size_t>(std::max<ssize_t>(got, 0));
  }
  return true;
}

}  // namespace tune::server
