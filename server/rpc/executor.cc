// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/executor.h"

#include <sched.h>
#include <sys/resource.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/error_detail.h"
#include "tuner/contained.h"

namespace tune::server {
namespace {

constexpr int kLowNiceness = 10;

}  // namespace

// Neither takes the processor from a thread that has just woken up, nor much of it beside one that
// computes. Where it is refused, all threads are alike.
void LowerThisThread() {
  const sched_param none = {};
  (void)sched_setscheduler(0, SCHED_BATCH, &none);
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowNiceness);
}

absl::StatusOr<Executor::Ticket> Executor::Run(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  if (stopping_) return WithReason(absl::UnavailableError("the daemon is stopping"),
                                     v1::ERROR_REASON_STOPPING);
  if (queue_.size() >= queue_max_) {
    v1::ErrorDetail detail;
    detail.set_reason(v1::ERROR_REASON_QUEUE_FULL);
    detail.set_retry_after_ms(1000);
    return WithDetail(
        absl::ResourceExhaustedError(absl::StrCat(
            "the daemon is busy: ", queue_max_,
            " calls of this kind are waiting; try again when some of them are done")),
        detail);
  }
  const Ticket ticket = next_ticket_++;
  queue_.push_back({ticket, std::move(task)});
  if (queue_.size() > idle_ && threads_.size() < threads_max_) {
    threads_.emplace_back([this] { Loop(); });
  }
  changed_.notify_one();
  return ticket;
}

bool Executor::Drop(Ticket ticket) {
  Task dropped;  // destroyed outside the lock
  std::lock_guard lock(mutex_);
  const auto it = std::find_if(queue_.begin(), queue_.end(),
                               [&](const Task& task) { return task.ticket == ticket; });
  if (it == queue_.end()) return false;
  dropped = std::move(*it);
  queue_.erase(it);
  return true;
}

void Executor::BeginStop() {
  std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

void Executor::Stop() {
  BeginStop();
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void Executor::Loop() {
  if (priority_ == Priority::kLow) LowerThisThread();
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    --idle_;
    if (queue_.empty()) return;
    std::function<void()> task = std::move(queue_.front().run);
    queue_.pop_front();
    lock.unlock();
    const absl::Status ended = Contained(task);
    if (!ended.ok()) spdlog::error("a task of the daemon was ended: {}", ended.ToString());
    task = nullptr;
    lock.lock();
  }
}

}  // namespace tune::server
