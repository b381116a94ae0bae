// SPDX-License-Identifier: Apache-2.0
// The thread that owns the only read-write connection: every commit and every checkpoint is its.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/steady_time.h"
#include "db/statement.h"

namespace tune::db {

// Thread-safe.
class Writer {
 public:
  // Work owns what it needs: it may run after its caller stopped waiting.
  using Work = std::function<absl::Status(Connection&)>;

  // Without a connection nothing can be written. `patience` is the longest time that a call waits
  // for its write to be durable.
  // `wrote` is told how long each write took; it may be empty.
  Writer(std::unique_ptr<Connection> connection, absl::Duration patience,
         std::function<void(absl::Duration)> wrote = {});
  // Finishes what is queued. REQUIRES: no call of Run is under way.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Runs `work` inside a transaction on the writer thread and waits until it is durable. Work that
  // waits together shares one commit; work that fails is rolled back alone. UNAVAILABLE if too much
  // is queued, or the write did not start in time: nothing was written. DEADLINE_EXCEEDED if the
  // write started and did not finish in time: it may have been written.
  absl::Status Run(Work work) {
    const absl::Time begin = SteadyNow();
    const absl::Status status = Await(std::move(work));
    if (wrote_ && status.ok()) wrote_(SteadyNow() - begin);
    return status;
  }
  bool writable() const { return writable_; }
  // Runs `work` and returns its result.
  template <typename T>
  absl::StatusOr<T> Compute(std::function<absl::StatusOr<T>(Connection&)> work) {
    auto result = std::make_shared<absl::StatusOr<T>>(absl::UnknownError("not run"));
    const absl::Status status = Run([result, work = std::move(work)](Connection& connection) {
      *result = work(connection);
      return result->status();
    });
    if (!status.ok()) return status;
    return *std::move(result);
  }

 private:
  struct Task {
    Work work;
    absl::Status status;
    bool done = false;
  };
  using TaskPtr = std::shared_ptr<Task>;

  absl::Status Await(Work work);
  void Loop();
  // The next batch; empty when the writer was idle for a while or is to stop.
  std::vector<TaskPtr> TakeBatch();
  void RunBatch(const std::vector<TaskPtr>& batch);
  // Sets the status of each task. Returns the error that undid the whole transaction.
  absl::Status TryBatch(const std::vector<TaskPtr>& batch);
  void RunTask(Task& task);

  const bool writable_;
  // On the writer thread only, once it runs.
  std::unique_ptr<Connection> connection_;
  bool unsettled_ = false;  // the connection has maintenance to do once the writer is idle

  const absl::Duration patience_;
  const std::function<void(absl::Duration)> wrote_;
  Mutex mutex_;
  std::condition_variable queued_changed_;
  std::condition_variable batch_done_;
  std::deque<TaskPtr> queued_ ABSL_GUARDED_BY(mutex_);  // with the tasks' `done`
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace tune::db
