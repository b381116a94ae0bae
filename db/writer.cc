// SPDX-License-Identifier: Apache-2.0
#include "db/writer.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/contained.h"
#include "base/status_macros.h"

namespace tune::db {
namespace {

constexpr size_t kMaxBatch = 256;
constexpr size_t kMaxQueued = 1024;
constexpr int kTriesMax = 5;
constexpr std::chrono::seconds kIdle(1);

}  // namespace

Writer::Writer(std::unique_ptr<Connection> connection, absl::Duration patience,
               std::function<void(absl::Duration)> wrote)
    : writable_(connection != nullptr),
      connection_(std::move(connection)),
      patience_(patience),
      wrote_(std::move(wrote)) {
  if (!writable_) return;
  thread_ = std::thread([this] { Loop(); });
}

Writer::~Writer() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  queued_changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

absl::Status Writer::Await(Work work) {
  if (!writable_) {
    return absl::FailedPreconditionError(
        "the store is open to read only, as another process has it");
  }
  const auto task = std::make_shared<Task>(Task{.work = std::move(work)});
  MutexLock lock(mutex_);
  if (queued_.size() >= kMaxQueued) {
    return absl::UnavailableError(absl::StrCat(
        kMaxQueued, " writes wait for the disk already, so this one was not taken; try again"));
  }
  queued_.push_back(task);
  queued_changed_.notify_one();
  const auto done = [&] { return task->done; };
  if (batch_done_.wait_for(lock.native(), absl::ToChronoMilliseconds(patience_), done))
    return task->status;
  const auto waiting = std::find(queued_.begin(), queued_.end(), task);
  if (waiting == queued_.end()) {
    return absl::DeadlineExceededError(
        absl::StrCat("the disk has not finished a write within ", absl::FormatDuration(patience_),
                     "; it may still be stored. See whether the disk of the state folder hangs"));
  }
  queued_.erase(waiting);
  return absl::UnavailableError(absl::StrCat(
      "the disk has not come to a write within ", absl::FormatDuration(patience_),
      ", and nothing of it was stored. See whether the disk of the state folder hangs; try again"));
}

void Writer::Loop() {
  while (true) {
    std::vector<TaskPtr> batch = TakeBatch();
    if (batch.empty()) {
      unsettled_ = connection_->Maintain(/*idle=*/true);
      MutexLock lock(mutex_);
      if (stopping_ && queued_.empty()) return;
      continue;
    }
    RunBatch(batch);
    {
      MutexLock lock(mutex_);
      for (const TaskPtr& task : batch) task->done = true;
    }
    batch_done_.notify_all();
    unsettled_ = connection_->Maintain(/*idle=*/false);
  }
}

std::vector<Writer::TaskPtr> Writer::TakeBatch() {
  MutexLock lock(mutex_);
  const auto wanted = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !queued_.empty();
  };
  if (unsettled_) {
    queued_changed_.wait_for(lock.native(), kIdle, wanted);
  } else {
    queued_changed_.wait(lock.native(), wanted);
  }
  const auto end = queued_.begin() + static_cast<ptrdiff_t>(std::min(queued_.size(), kMaxBatch));
  std::vector<TaskPtr> batch(queued_.begin(), end);
  queued_.erase(queued_.begin(), end);
  return batch;
}

void Writer::RunBatch(const std::vector<TaskPtr>& batch) {
  absl::Status failed = TryBatch(batch);
  for (int tries = 1; !failed.ok(); ++tries) {
    const Connection::After after = connection_->AfterFailure();
    if (after == Connection::After::kCommitted) return;
    if (after == Connection::After::kNothing || tries == kTriesMax) break;
    for (const TaskPtr& task : batch) task->status = absl::OkStatus();
    failed = TryBatch(batch);
  }
  // Work that failed by itself keeps its own reason.
  for (const TaskPtr& task : batch) {
    if (task->status.ok()) task->status = failed;
  }
}

absl::Status Writer::TryBatch(const std::vector<TaskPtr>& batch) {
  RETURN_IF_ERROR(connection_->BeginWriting());
  for (const TaskPtr& task : batch) {
    RunTask(*task);
    // A full disk or a lack of memory makes the engine undo the whole transaction.
    if (!connection_->in_transaction()) return task->status;
  }
  const absl::Status committed = connection_->Prepare("COMMIT").Run();
  if (!committed.ok() && connection_->in_transaction()) {
    connection_->Prepare("ROLLBACK").Run().IgnoreError();
  }
  return committed;
}

void Writer::RunTask(Task& task) {
  task.status = connection_->Prepare("SAVEPOINT task").Run();
  if (!task.status.ok()) return;
  task.status = Contained([&] { return task.work(*connection_); });
  if (!connection_->in_transaction()) {
    if (task.status.ok()) task.status = absl::UnavailableError("the transaction was rolled back");
    return;
  }
  if (!task.status.ok()) connection_->Prepare("ROLLBACK TO task").Run().IgnoreError();
  absl::Status released = connection_->Prepare("RELEASE task").Run();
  if (task.status.ok()) task.status = released;
}

}  // namespace tune::db
