// SPDX-License-Identifier: Apache-2.0
// Says on stderr, every so often, what a call that tells nothing of its progress waits for: a busy
// host or a device in use must not look like a program that hangs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <string>
#include <thread>

#include "base/mutex.h"

namespace tune::client {

// Until destroyed. The first word comes after one period, so short waits are silent.
class WaitingNote {
 public:
  explicit WaitingNote(std::string what,
                       std::chrono::milliseconds period = std::chrono::seconds(15));
  ~WaitingNote();
  WaitingNote(const WaitingNote&) = delete;
  WaitingNote& operator=(const WaitingNote&) = delete;

 private:
  void Loop();

  const std::string what_;
  const std::chrono::milliseconds period_;
  Mutex mutex_;
  std::condition_variable changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tune::client
