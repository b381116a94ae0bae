// SPDX-License-Identifier: Apache-2.0
// How tests start the scripted worker.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/supervision/worker_process.h"
#include "tests/server/temp_dir.h"

namespace tune::server {

inline WorkerCommand ScriptedCommand(const std::string& kind, const TempDir& state,
                                     std::vector<std::string> more = {}) {
  WorkerCommand command = {SCRIPTED_WORKER, {kind, "--state", state.path()}, {}};
  command.args.insert(command.args.end(), more.begin(), more.end());
  return command;
}

// Does it come to hold within ten seconds?
inline bool Eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 1000; ++i) {
    if (holds()) return true;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return false;
}

// Is the process gone, or a zombie that its parent has yet to reap? Waits for it, ten seconds at
// most. /proc/PID/stat will not do: it says zombie once the first thread has ended, while others
// may still be ending.
inline bool Ends(pid_t pid) {
  const int pid_fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pid_fd < 0) return errno == ESRCH;
  pollfd ended = {pid_fd, POLLIN, 0};
  const bool ends = TEMP_FAILURE_RETRY(poll(&ended, 1, 10'000)) > 0;
  close(pid_fd);
  return ends;
}

// A flag that turns true after a while, on a thread of its own.
class TrueAfter {
 public:
  explicit TrueAfter(absl::Duration delay)
      : thread_([this, delay] {
          absl::SleepFor(delay);
          set_at_ = absl::Now();
          flag_ = true;
        }) {}
  ~TrueAfter() { thread_.join(); }
  Cancelled AsCancelled() {
    return [this] { return flag_.load(); };
  }
  const std::atomic<bool>& flag() const { return flag_; }
  absl::Time set_at() const { return set_at_; }

 private:
  std::atomic<bool> flag_{false};
  absl::Time set_at_;
  std::thread thread_;
};

}  // namespace tune::server
