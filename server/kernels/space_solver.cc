// SPDX-License-Identifier: Apache-2.0
#include "server/kernels/space_solver.h"

#include <malloc.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "tuner/contained.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr std::chrono::milliseconds kPatience(20);

// What was held for a moment is of no more use, and others may need the memory.
void ReturnFreedMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace

absl::Status SpaceSolver::Run(absl::FunctionRef<absl::Status(const SpaceEffort&)> work,
                              const Cancelled& cancelled, Caller caller) {
  const absl::Status small = work({.size = SpaceEffort::Size::kSmall, .stopped = cancelled});
  if (!absl::IsAborted(small)) return small;
  if (caller == Caller::kSweep) return RunInTurn(work, cancelled);
  const absl::Cleanup leave = [this] { --calls_; };
  if (calls_++ >= kWaitingMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kWaitingMax,
                     " large spaces are being solved or waiting for it; try again in a minute, or "
                     "give the params of this one fewer values"));
  }
  return RunInTurn(work, cancelled);
}

absl::Status SpaceSolver::RunInTurn(absl::FunctionRef<absl::Status(const SpaceEffort&)> work,
                                    const Cancelled& cancelled) {
  const auto stopped = [&] { return executor_.stopping() || (cancelled && cancelled()); };
  // Shared: it may still be on its way out of set_value when this thread goes on.
  const auto promise = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> done = promise->get_future();
  ASSIGN_OR_RETURN(const Executor::Ticket ticket, executor_.Run([&, promise] {
    absl::Status status = stopped() ? absl::CancelledError("cancelled")
                                    : Contained([&] { return work({.stopped = stopped}); });
    ReturnFreedMemory();
    promise->set_value(std::move(status));
  }));
  while (done.wait_for(kPatience) != std::future_status::ready) {
    if (stopped() && executor_.Drop(ticket)) {
      return absl::CancelledError("cancelled while waiting for other large spaces to be solved");
    }
  }
  return done.get();
}

absl::StatusOr<Space> SpaceSolver::MakeSpace(const Kernel& kernel, const Problem& problem,
                                             const TargetTraits& traits, const Cancelled& cancelled,
                                             Caller caller) {
  std::optional<Space> space;
  RETURN_IF_ERROR(Run(
      [&](const SpaceEffort& effort) -> absl::Status {
        ASSIGN_OR_RETURN(space, kernel.MakeSpace(problem, traits, effort));
        return absl::OkStatus();
      },
      cancelled, caller));
  return *std::move(space);
}

}  // namespace tune::server
