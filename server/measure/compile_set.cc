// SPDX-License-Identifier: Apache-2.0
#include "server/measure/compile_set.h"

#include <utility>

#include "base/cancelled.h"

namespace tune::server {
void CompileSet::Add(const ProgramPlan& program, Take take) {
  {
    MutexLock lock(mutex_);
    ++unfinished_;
  }
  compilers_.Submit(this, program,
                    [this, take = std::move(take)](absl::StatusOr<CompileResult> result) {
                      MutexLock lock(mutex_);
                      --unfinished_;
                      if (result.ok())
                        bytes_ += static_cast<int64_t>(result->artifact.binary.size());
                      if (failure_.ok()) failure_ = result.status();
                      if (failure_.ok() && bytes_ > limit_.bytes) {
                        failure_ = absl::ResourceExhaustedError(limit_.refusal);
                      }
                      if (failure_.ok()) take(*std::move(result));
                      changed_.notify_all();
                    });
}

void CompileSet::Add(ProgramPlan& plan, CompileResult& result) {
  Add(plan, [&plan, &result](CompileResult compiled) {
    plan.steps = std::move(compiled.steps);
    plan.symbols = std::move(compiled.symbols);
    result = std::move(compiled);
  });
}

absl::Status CompileSet::Await(const Cancelled& cancelled, size_t left) {
  MutexLock lock(mutex_);
  while (!changed_.wait_for(lock.native(), kCancelPollPeriod,
                            [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                              return unfinished_ <= left || !failure_.ok();
                            })) {
    if (cancelled && cancelled()) return absl::CancelledError("cancelled while compiling");
  }
  return failure_;
}

}  // namespace tune::server
