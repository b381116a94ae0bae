// SPDX-License-Identifier: Apache-2.0
// Ctrl-C while a call is under way.
#pragma once

#include <functional>
#include <thread>

namespace tune::client {

// While it lives, the first SIGINT runs `on_interrupt` on a thread of its own; a second one ends
// the process at once. One at a time.
class InterruptGuard {
 public:
  explicit InterruptGuard(std::function<void()> on_interrupt);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool interrupted() const;

 private:
  std::thread waiter_;
};

}  // namespace tune::client
