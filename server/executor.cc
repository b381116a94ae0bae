// SPDX-License-Identifier: Apache-2.0
#include "server/executor.h"

#include <utility>

namespace tune::server {

absl::Status Executor::Run(std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return absl::UnavailableError("the daemon is stopping");
  if (queue_.size() >= queue_max_) {
    return absl::ResourceExhaustedError("too many requests at once; try again");
  }
  queue_.push_back(std::move(task));
  if (queue_.size() > idle_ && threads_.size() < threads_max_) {
    threads_.emplace_back([this] { Loop(); });
  }
  return absl::OkStatus();
}

void Executor::Stop() {
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void Executor::Loop() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    ++idle_;
    mutex_.Await(absl::Condition(
        +[](Executor* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) {
          return self->stopping_ || !self->queue_.empty();
        },
        this));
    --idle_;
    if (queue_.empty()) return;
    std::function<void()> task = std::move(queue_.front());
    queue_.pop_front();
    mutex_.Unlock();
    task();
    task = nullptr;
    mutex_.Lock();
  }
}

}  // namespace tune::server
