// SPDX-License-Identifier: Apache-2.0
// The thread that owns the only read-write connection: every commit and every checkpoint is its.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "db/statement.h"

namespace tune::db {

// Thread-safe.
class Writer {
 public:
  using Work = absl::FunctionRef<absl::Status(Connection&)>;

  // Without a connection nothing can be written.
  explicit Writer(std::unique_ptr<Connection> connection);
  // Finishes what is queued. REQUIRES: no call of Run is under way.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Runs `work` inside a transaction on the writer thread and waits until it is durable. Work that
  // waits together shares one commit; work that fails is rolled back alone. The queue is bounded
  // by the threads that wait in it.
  absl::Status Run(Work work);
  bool writable() const { return writable_; }

 private:
  struct Task {
    Work work;
    absl::Status status;
    bool done = false;
  };

  void Loop();
  // The next batch; empty when the writer was idle for a while or is to stop.
  std::vector<Task*> TakeBatch();
  void RunBatch(const std::vector<Task*>& batch);
  void RunTask(Task& task);
  void FailBatch(const std::vector<Task*>& batch, const absl::Status& status);
  void CheckpointAfterCommit();
  void CheckpointWhenIdle();

  const bool writable_;
  // On the writer thread only, once it runs.
  std::unique_ptr<Connection> connection_;
  int log_pages_ = 0;  // in the write-ahead log, as of the last commit

  std::mutex mutex_;
  std::condition_variable queued_changed_;
  std::condition_variable batch_done_;
  std::vector<Task*> queued_;  // under mutex_, as are the tasks' `done`
  bool stopping_ = false;      // under mutex_
  std::thread thread_;         // last: it uses all of the above
};

}  // namespace tune::db
