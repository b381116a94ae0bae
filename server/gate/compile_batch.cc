// SPDX-License-Identifier: Apache-2.0
#include "server/gate/compile_batch.h"

#include <chrono>
#include <utility>

namespace tune::server {
namespace {

constexpr std::chrono::milliseconds kPatience(20);

}  // namespace

void CompileBatch::Add(const ProgramPlan& program) {
  size_t index = 0;
  {
    std::lock_guard lock(mutex_);
    index = results_.size();
    results_.emplace_back();
  }
  compilers_.Submit(this, program, [this, index](absl::StatusOr<CompileResult> result) {
    std::lock_guard lock(mutex_);
    ++finished_;
    if (result.ok()) {
      Keep(index, *std::move(result));
    } else if (failure_.ok()) {
      failure_ = result.status();
    }
    changed_.notify_all();
  });
}

void CompileBatch::Keep(size_t index, CompileResult result) {
  bytes_ += static_cast<int64_t>(result.artifact.binary.size());
  if (bytes_ <= bytes_max_) {
    results_[index] = std::move(result);
  } else if (failure_.ok()) {
    failure_ = absl::ResourceExhaustedError(
        absl::StrCat("the binaries of this gate have more than ", bytes_max_,
                     " bytes in all; gate fewer kernels at once, or start tunerd with a larger "
                     "--gate-binary-bytes"));
  }
}

absl::StatusOr<std::vector<CompileResult>> CompileBatch::Await(const Cancelled& cancelled) {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kPatience,
                            [&] { return finished_ == results_.size() || !failure_.ok(); })) {
    if (cancelled && cancelled()) return absl::CancelledError("cancelled while compiling");
  }
  if (!failure_.ok()) return failure_;
  return std::move(results_);
}

}  // namespace tune::server
