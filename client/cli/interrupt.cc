// SPDX-License-Identifier: Apache-2.0
#include "client/cli/interrupt.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>

#include "client/report/exit_code.h"

namespace tune::client {
namespace {

std::atomic<int> interrupt_count{0};
int wake_fd = -1;
struct sigaction previous_action;

void OnSignal(int) {
  if (interrupt_count.fetch_add(1) > 0) _exit(kInterrupted);
  const uint64_t one = 1;
  (void)!write(wake_fd, &one, sizeof(one));
}

}  // namespace

InterruptGuard::InterruptGuard(std::function<void()> on_interrupt) {
  interrupt_count = 0;
  wake_fd = eventfd(0, EFD_CLOEXEC);
  waiter_ = std::thread([run = std::move(on_interrupt)] {
    uint64_t value = 0;
    (void)!read(wake_fd, &value, sizeof(value));
    if (interrupt_count > 0) run();
  });
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, &previous_action);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous_action, nullptr);
  const uint64_t one = 1;
  (void)!write(wake_fd, &one, sizeof(one));
  waiter_.join();
  close(wake_fd);
}

bool InterruptGuard::interrupted() const { return interrupt_count > 0; }

}  // namespace tune::client
