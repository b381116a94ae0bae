// SPDX-License-Identifier: Apache-2.0
#include "server/snapshots/snapshot_writer.h"

#include <spdlog/spdlog.h>
#include <time.h>

#include <algorithm>
#include <utility>

#include "base/contained.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "server/rpc/executor.h"

namespace tune::server {
namespace {

constexpr absl::Duration kRest = absl::Milliseconds(200);
constexpr absl::Duration kRestAfterFault = absl::Seconds(10);
// A writer that is always needed takes at most a tenth of a processor.
constexpr int kRestFactor = 9;

absl::Duration ProcessorTimeOfThisThread() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

}  // namespace

void SnapshotWriter::Notice() {
  MutexLock lock(mutex_);
  if (stopping_ || !folder_.writable()) return;
  ++noticed_;
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  changed_.notify_all();
}

absl::Status SnapshotWriter::Flush(const Cancelled& cancelled) {
  MutexLock lock(mutex_);
  if (!problem_.ok() && !stopping_) ++noticed_;  // worth another try at once
  const uint64_t wanted = noticed_;
  ++flushing_;
  changed_.notify_all();
  absl::Status status;
  while (tried_ < wanted && status.ok()) {
    changed_.wait_for(lock.native(), kCancelPollPeriod);
    if (cancelled && cancelled()) status = absl::CancelledError("nobody waits any more");
  }
  --flushing_;
  return status.ok() ? problem_ : status;
}

void SnapshotWriter::Await(absl::Duration most) {
  const absl::Time deadline = SteadyNow() + most;
  MutexLock lock(mutex_);
  const uint64_t wanted = noticed_;
  while (tried_ < wanted && SteadyNow() < deadline) {
    if (IsDue() && cost_ < most) {
      Write();
    } else {
      changed_.wait_for(lock.native(), kCancelPollPeriod);
    }
  }
}

absl::Status SnapshotWriter::problem() const {
  MutexLock lock(mutex_);
  return problem_;
}

bool SnapshotWriter::MayWrite() const {
  const bool rested = SteadyNow() >= rest_until_;
  if (tried_ < noticed_) return stopping_ || flushing_ > 0 || rested;
  return !problem_.ok() && !stopping_ && rested;
}

void SnapshotWriter::Write() {
  const uint64_t noticed = noticed_;
  writing_ = true;
  mutex_.Unlock();
  const absl::Duration before = ProcessorTimeOfThisThread();
  absl::Status status = Contained([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::string text, text_());
    return folder_.PutNewest(text).status();
  });
  const absl::Duration cost = ProcessorTimeOfThisThread() - before;
  mutex_.Lock();
  if (!status.ok() && status != problem_) {
    spdlog::error("no snapshot is written: {}", status.ToString());
  }
  writing_ = false;
  cost_ = cost;
  tried_ = noticed;
  problem_ = std::move(status);
  rest_until_ = SteadyNow() + std::max(problem_.ok() ? kRest : kRestAfterFault, cost * kRestFactor);
  changed_.notify_all();
}

void SnapshotWriter::Loop() {
  LowerThisThread();
  MutexLock lock(mutex_);
  while (true) {
    while (!IsDue()) {
      if (stopping_ && !writing_) return;
      if (!writing_ && (tried_ < noticed_ || !problem_.ok())) {
        changed_.wait_for(lock.native(), absl::ToChronoNanoseconds(rest_until_ - SteadyNow()));
      } else {
        changed_.wait(lock.native());
      }
    }
    Write();
  }
}

void SnapshotWriter::Stop() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    thread = std::move(thread_);
    changed_.notify_all();
  }
  if (thread.joinable()) thread.join();
}

}  // namespace tune::server
