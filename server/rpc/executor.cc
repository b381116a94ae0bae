// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/executor.h"

#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/contained.h"
#include "base/status_macros.h"
#include "server/rpc/error_detail.h"

namespace tune::server {
namespace {

constexpr int kLowNiceness = 10;
constexpr int64_t kRetryAfterMs = 1000;
// How many answers of a principal may wait to be read, for each thread that it may have.
constexpr size_t kPlacesPerThread = 2;

thread_local Executor::Place place_of_task;

absl::Status Busy(const std::string& why) {
  v1::ErrorDetail detail;
  detail.set_reason(v1::ERROR_REASON_QUEUE_FULL);
  detail.set_retry_after_ms(kRetryAfterMs);
  return WithDetail(absl::ResourceExhaustedError(why), detail);
}

}  // namespace

// Neither takes the processor from a thread that has just woken up, nor much of it from one that
// computes. If the system refuses it, all threads are alike.
void LowerThisThread() {
  const sched_param none = {};
  (void)sched_setscheduler(0, SCHED_BATCH, &none);
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowNiceness);
}

Executor::Executor(size_t threads_max, size_t queue_max, Priority priority,
                   size_t threads_per_principal)
    : threads_max_(threads_max),
      queue_max_(queue_max),
      priority_(priority),
      threads_per_principal_(threads_per_principal > 0 ? threads_per_principal
                                                       : std::max<size_t>(1, threads_max * 3 / 4)) {
}

absl::Status Executor::WhyFull(const Sharer& sharer) {
  if (sharer.has_reserve) {
    // Others' tasks never take an operator's place.
    if (queue_.size() - queued_of_others_ < queue_max_) return absl::OkStatus();
  } else {
    const auto share = shares_.find(sharer.name);
    const size_t own = share == shares_.end() ? 0 : share->second.queued;
    const size_t own_max = std::max<size_t>(1, queue_max_ / 2);
    if (own >= own_max) {
      return Busy(absl::StrCat("the daemon is busy: ", own_max, " calls of this kind of ",
                               sharer.name, " are waiting; try again when some of them are done"));
    }
    if (queued_of_others_ < queue_max_) return absl::OkStatus();
  }
  return Busy(
      absl::StrCat("the daemon is busy: ", queue_max_,
                   " calls of this kind are waiting; try again when some of them are done"));
}

absl::StatusOr<Executor::Ticket> Executor::Run(std::function<void()> task) {
  const Sharer& sharer = ActingFor::Current();
  MutexLock lock(mutex_);
  if (stopping_)
    return WithReason(absl::UnavailableError("the daemon is stopping"), v1::ERROR_REASON_STOPPING);
  RETURN_IF_ERROR(WhyFull(sharer));
  const Ticket ticket = next_ticket_++;
  ++shares_[sharer.name].queued;
  queued_of_others_ += sharer.has_reserve ? 0 : 1;
  queue_.push_back({ticket, sharer, std::move(task)});
  if (queue_.size() > idle_ && threads_.size() < threads_max_) {
    threads_.emplace_back([this] { Loop(); });
  }
  changed_.notify_one();
  return ticket;
}

bool Executor::Drop(Ticket ticket) {
  Task dropped;  // destroyed outside the lock
  MutexLock lock(mutex_);
  const auto it = std::find_if(queue_.begin(), queue_.end(),
                               [&](const Task& task) { return task.ticket == ticket; });
  if (it == queue_.end()) return false;
  dropped = std::move(*it);
  queue_.erase(it);
  queued_of_others_ -= dropped.sharer.has_reserve ? 0 : 1;
  --shares_[dropped.sharer.name].queued;
  Forget(dropped.sharer.name);
  return true;
}

void Executor::Forget(const std::string& name) {
  const auto share = shares_.find(name);
  if (share != shares_.end() && share->second.queued == 0 && share->second.places == 0) {
    shares_.erase(share);
  }
}

bool Executor::MayRun(const Task& task) {
  if (task.sharer.has_reserve || stopping_) return true;
  const Share& share = shares_[task.sharer.name];
  const size_t reserve = threads_max_ > 1 ? 1 : 0;  // a thread that only operators have
  return running_of_others_ + reserve < threads_max_ && share.running < threads_per_principal_ &&
         share.places < threads_per_principal_ * kPlacesPerThread;
}

std::deque<Executor::Task>::iterator Executor::NextTask() {
  auto next = queue_.end();
  std::pair<size_t, uint64_t> least;
  for (auto task = queue_.begin(); task != queue_.end(); ++task) {
    if (!MayRun(*task)) continue;
    const Share& share = shares_[task->sharer.name];
    const std::pair had(share.running, share.served);
    if (next != queue_.end() && had >= least) continue;
    next = task;
    least = had;
  }
  return next;
}

Executor::Place Executor::MakePlace(const std::string& name) {
  ++shares_[name].places;
  return Place(nullptr, [this, name](void*) {
    MutexLock lock(mutex_);
    --shares_[name].places;
    Forget(name);
    changed_.notify_all();
  });
}

Executor::Place Executor::ThisPlace() { return place_of_task; }

void Executor::BeginStop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

void Executor::Stop() {
  BeginStop();
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void Executor::Loop() {
  if (priority_ == Priority::kLow) LowerThisThread();
  MutexLock lock(mutex_);
  while (true) {
    ++idle_;
    auto next = queue_.end();
    changed_.wait(lock.native(), [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      next = NextTask();
      return next != queue_.end() || (stopping_ && queue_.empty());
    });
    --idle_;
    if (next == queue_.end()) return;
    Task task = std::move(*next);
    queue_.erase(next);
    const size_t other = task.sharer.has_reserve ? 0 : 1;
    Share& share = shares_[task.sharer.name];
    --share.queued;
    ++share.running;
    share.served = ++served_;
    queued_of_others_ -= other;
    running_of_others_ += other;
    place_of_task = MakePlace(task.sharer.name);
    const std::string name = task.sharer.name;
    lock.Unlock();
    {
      const ActingFor acting(std::move(task.sharer));
      const absl::Status ended = Contained(task.run);
      if (!ended.ok()) spdlog::error("a task of the daemon was ended: {}", ended.ToString());
      task.run = nullptr;
    }
    lock.Lock();
    --shares_[name].running;
    running_of_others_ -= other;
    lock.Unlock();
    place_of_task = nullptr;  // takes the lock, unless the task keeps it
    lock.Lock();
    changed_.notify_all();
  }
}

}  // namespace tune::server
