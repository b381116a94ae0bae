// SPDX-License-Identifier: Apache-2.0
// Compiles many programs at once and waits for all of them. A variant that does not compile is a
// result; only a compiler that is missing, or the set's limit, is an error.
//
//   CompileSet set(compilers);
//   for (Variant& variant : variants) set.Add(variant.plan, variant.compiled);
//   RETURN_IF_ERROR(set.Await(cancelled));
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "server/supervision/compilers.h"

namespace tune::server {

struct BinaryLimit {
  int64_t bytes = std::numeric_limits<int64_t>::max();  // of all binaries together
  std::string refusal = "";  // the message of RESOURCE_EXHAUSTED if they have more
};

// Used from one thread. Its destructor ends the compiles that are under way.
class CompileSet {
 public:
  // Called from any thread, one call at a time.
  using Take = std::function<void(CompileResult result)>;

  explicit CompileSet(const Compilers& compilers, BinaryLimit limit = {})
      : compilers_(compilers), limit_(std::move(limit)) {}
  ~CompileSet() { compilers_.Withdraw(this); }

  void Add(const ProgramPlan& program, Take take);
  // Puts the result into `result`, and its steps and symbols into `plan`, which the caller leaves
  // alone until Await returns.
  void Add(ProgramPlan& plan, CompileResult& result);
  // Waits until at most `left` compiles are unfinished. An error is that of the first compile that
  // had no compiler; RESOURCE_EXHAUSTED beyond the limit. Nothing more is waited for then.
  absl::Status Await(const Cancelled& cancelled, size_t left = 0);

 private:
  const Compilers& compilers_;
  const BinaryLimit limit_;
  Mutex mutex_;
  std::condition_variable changed_;
  size_t unfinished_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

// The program that a compiled plan is.
inline Program ProgramOf(const ProgramPlan& plan, const CompileResult& compiled) {
  return WithBinary(plan, compiled.artifact.binary);
}

}  // namespace tune::server
