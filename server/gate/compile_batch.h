// SPDX-License-Identifier: Apache-2.0
// Compiles a list of plans at once and waits for all of them.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/pool/compile_pool.h"

namespace tune::server {

// Add from one thread, then Await once.
class CompileBatch {
 public:
  explicit CompileBatch(CompilePool& pool) : pool_(pool) {}
  ~CompileBatch() { pool_.Withdraw(this); }

  void Add(const CompilePlan& plan);
  // In the order in which they were added. A variant that does not compile is a result, not an
  // error.
  absl::StatusOr<std::vector<CompileResult>> Await(const Cancelled& cancelled);

 private:
  CompilePool& pool_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::vector<CompileResult> results_;
  size_t finished_ = 0;
  absl::Status failure_;
};

}  // namespace tune::server
