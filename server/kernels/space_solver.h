// SPDX-License-Identifier: Apache-2.0
// Finds the configs of spaces for everybody who needs them. Small spaces are found at once. Large
// ones take seconds and some 100 MiB: they wait for each other, and are found on a thread that
// gives way to all others, so that neither memory nor processors run short.
#pragma once

#include <atomic>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/rpc/executor.h"
#include "tuner/cancelled.h"
#include "tuner/kernel/kernel.h"

namespace tune::server {

// Thread-safe.
class SpaceSolver {
 public:
  // How many large spaces may wait for calls; more are refused.
  static constexpr int kWaitingMax = 16;

  enum class Caller {
    kCall,   // refused when too many wait
    kSweep,  // was accepted before, and waits as long as it takes
  };

  ~SpaceSolver() { Stop(); }

  // Calls `work`, on this thread, with a small effort, which does for nearly all spaces. If that
  // gives ABORTED, it is called again with any effort, on the solver's thread, when its turn has
  // come. RESOURCE_EXHAUSTED: too many wait. CANCELLED: `cancelled` said so; asked from both
  // threads, at least every 20 ms. Returns when `work` is not running any more.
  absl::Status Run(absl::FunctionRef<absl::Status(const SpaceEffort&)> work,
                   const Cancelled& cancelled, Caller caller = Caller::kCall);

  // As Kernel::MakeSpace.
  absl::StatusOr<Space> MakeSpace(const Kernel& kernel, const Problem& problem,
                                  const TargetTraits& traits, const Cancelled& cancelled,
                                  Caller caller = Caller::kCall);

  // What runs or waits ends with CANCELLED or UNAVAILABLE. Idempotent.
  void Stop() { executor_.Stop(); }

 private:
  absl::Status RunInTurn(absl::FunctionRef<absl::Status(const SpaceEffort&)> work,
                         const Cancelled& cancelled);

  std::atomic<int> calls_ = 0;  // that wait for the thread, or have it
  Executor executor_{/*threads_max=*/1, /*queue_max=*/1024, Executor::Priority::kLow};
};

}  // namespace tune::server
