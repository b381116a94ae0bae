// SPDX-License-Identifier: Apache-2.0
// Compiles a list of programs at once and waits for all of them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/supervision/compilers.h"

namespace tune::server {

// Add from one thread, then Await once.
class CompileBatch {
 public:
  // `bytes_max`: of all binaries together.
  CompileBatch(const Compilers& compilers, int64_t bytes_max)
      : compilers_(compilers), bytes_max_(bytes_max) {}
  ~CompileBatch() { compilers_.Withdraw(this); }

  void Add(const ProgramPlan& program);
  // In the order in which they were added. A variant that does not compile is a result, not an
  // error. RESOURCE_EXHAUSTED, and no more is compiled, where there are too many bytes of binaries.
  absl::StatusOr<std::vector<CompileResult>> Await(const Cancelled& cancelled);

 private:
  void Keep(size_t index, CompileResult result);

  const Compilers& compilers_;
  const int64_t bytes_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::vector<CompileResult> results_;
  size_t finished_ = 0;
  int64_t bytes_ = 0;  // of the binaries in results_
  absl::Status failure_;
};

}  // namespace tune::server
