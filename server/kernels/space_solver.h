// SPDX-License-Identifier: Apache-2.0
// Finds the configs of spaces within a fixed amount of memory, whatever the spaces are. Small
// spaces are found at once on the calling thread, some at a time. Large ones take seconds and some
// 100 MiB: they wait for each other, by turns of principals, and are found on a thread of low
// priority.
#pragma once

#include <atomic>
#include <condition_variable>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/cancelled.h"
#include "base/mutex.h"
#include "server/rpc/executor.h"
#include "tuner/kernel/kernel.h"

namespace tune::server {

// Thread-safe.
class SpaceSolver {
 public:
  // How many large spaces may wait for calls; more are refused.
  static constexpr int kWaitingMax = 16;
  // Limits of the memory that all work together may hold: three small efforts and a large one.
  static constexpr size_t kSmallBytes = 8 << 20;
  static constexpr int kSmallAtOnce = 3;
  static constexpr size_t kLargeBytes = 112 << 20;

  enum class Caller {
    kCall,   // refused when too many wait, or when it takes too long
    kSweep,  // was accepted before, and waits and works as long as it takes
  };

  // `turn_max` limits the time of a call's work on the thread for large spaces.
  explicit SpaceSolver(absl::Duration turn_max = absl::Seconds(20)) : turn_max_(turn_max) {}
  ~SpaceSolver() { Stop(); }

  // Calls `work` on this thread with a small effort, which suffices for nearly all spaces. If it
  // returns ABORTED, or takes more memory than a small effort may, it is called again with any
  // effort, on the solver's thread, when its turn has come. RESOURCE_EXHAUSTED: too many calls
  // wait, or the work takes too much memory or time. CANCELLED: `cancelled` returned true; both
  // threads ask it every 20 ms at least. `work` does not run any more when this returns. An
  // exception at any `new` may end `work`, which then begins anew.
  absl::Status Run(absl::FunctionRef<absl::Status(const SpaceEffort&)> work,
                   const Cancelled& cancelled, Caller caller = Caller::kCall);

  // Runs Kernel::MakeSpace, and returns its errors and those of Run.
  absl::StatusOr<Space> MakeSpace(const Kernel& kernel, const Problem& problem,
                                  const TargetTraits& traits, const Cancelled& cancelled,
                                  Caller caller = Caller::kCall);

  // Ends running and waiting work with CANCELLED or UNAVAILABLE. Idempotent.
  void Stop() { executor_.Stop(); }

 private:
  using Work = absl::FunctionRef<absl::Status(const SpaceEffort&)>;
  absl::Status RunSmall(Work work, const Cancelled& stopped);
  absl::Status RunInTurn(Work work, const Cancelled& stopped, Caller caller);

  const absl::Duration turn_max_;
  std::atomic<int> calls_ = 0;  // that wait for the thread, or have it
  Mutex mutex_;
  std::condition_variable small_ended_;
  int small_ ABSL_GUARDED_BY(mutex_) = 0;  // efforts under way
  Executor executor_{/*threads_max=*/1, /*queue_max=*/1024, Executor::Priority::kLow};
};

}  // namespace tune::server
