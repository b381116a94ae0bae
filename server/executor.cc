// SPDX-License-Identifier: Apache-2.0
#include "server/executor.h"

#include <utility>

namespace tune::server {

absl::Status Executor::Run(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  if (stopping_) return absl::UnavailableError("the daemon is stopping");
  if (queue_.size() >= queue_max_) {
    return absl::ResourceExhaustedError("too many requests at once; try again");
  }
  queue_.push_back(std::move(task));
  if (queue_.size() > idle_ && threads_.size() < threads_max_) {
    threads_.emplace_back([this] { Loop(); });
  }
  changed_.notify_one();
  return absl::OkStatus();
}

void Executor::Stop() {
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void Executor::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    --idle_;
    if (queue_.empty()) return;
    std::function<void()> task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

}  // namespace tune::server
