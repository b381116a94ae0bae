// SPDX-License-Identifier: Apache-2.0
#include "server/gate/compile_batch.h"

#include <chrono>
#include <utility>

namespace tune::server {
namespace {

constexpr std::chrono::milliseconds kPatience(20);

}  // namespace

void CompileBatch::Add(const CompilePlan& plan) {
  size_t index = 0;
  {
    std::lock_guard lock(mutex_);
    index = results_.size();
    results_.emplace_back();
  }
  pool_.Submit(this, plan, [this, index](absl::StatusOr<CompileResult> result) {
    std::lock_guard lock(mutex_);
    ++finished_;
    if (result.ok()) {
      results_[index] = *std::move(result);
    } else if (failure_.ok()) {
      failure_ = result.status();
    }
    changed_.notify_all();
  });
}

absl::StatusOr<std::vector<CompileResult>> CompileBatch::Await(const Cancelled& cancelled) {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kPatience, [&] { return finished_ == results_.size(); })) {
    if (cancelled && cancelled()) return absl::CancelledError("cancelled while compiling");
  }
  if (!failure_.ok()) return failure_;
  return std::move(results_);
}

}  // namespace tune::server
