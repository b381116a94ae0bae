// SPDX-License-Identifier: Apache-2.0
#include "server/kernels/space_solver.h"

#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/contained.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "server/kernels/allocation_limit.h"

namespace tune::server {
namespace {

constexpr char kAdvice[] = "; give the params fewer values, or have fewer and shorter constraints";

// With what to do about it.
absl::Status TooMuch(absl::string_view what) {
  return absl::ResourceExhaustedError(absl::StrCat("the space is too large: ", what, kAdvice));
}

// Work whose size is its own affair says itself what is too much.
absl::Status RunLarge(absl::FunctionRef<absl::Status()> work) {
  bool ended = false;
  const absl::Status status = RunWithin(SpaceSolver::kLargeBytes, [&] {
    absl::Status result = work();
    ended = true;
    return result;
  });
  ReturnFreedMemory();
  return ended ? status : TooMuch(status.message());
}

}  // namespace

absl::Status SpaceSolver::Run(Work work, const Cancelled& cancelled, Caller caller) {
  // By value: a space that is too large to be known keeps it, to ask while it is sampled.
  const Cancelled stopped = [this, cancelled] {
    return executor_.stopping() || (cancelled && cancelled());
  };
  const absl::Status small = RunSmall(work, stopped);
  if (!absl::IsAborted(small)) return small;
  if (caller == Caller::kSweep) return RunInTurn(work, stopped, caller);
  const absl::Cleanup leave = [this] { --calls_; };
  if (calls_++ >= kWaitingMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kWaitingMax,
                     " large spaces are being solved or waiting for it; try again in a minute, or "
                     "give the params of this one fewer values"));
  }
  return RunInTurn(work, stopped, caller);
}

absl::Status SpaceSolver::RunSmall(Work work, const Cancelled& stopped) {
  {
    MutexLock lock(mutex_);
    while (!small_ended_.wait_for(
        lock.native(), kCancelPollPeriod,
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return small_ < kSmallAtOnce; })) {
      if (stopped()) {
        return absl::CancelledError("cancelled while waiting for other spaces to be solved");
      }
    }
    ++small_;
  }
  const absl::Cleanup end = [this] {
    {
      MutexLock lock(mutex_);
      --small_;
    }
    small_ended_.notify_one();
  };
  bool ended = false;
  const absl::Status status = RunWithin(kSmallBytes, [&] {
    absl::Status result = work({.size = SpaceEffort::Size::kSmall, .stopped = stopped});
    ended = true;
    return result;
  });
  return ended ? status : absl::AbortedError(status.message());
}

absl::Status SpaceSolver::RunInTurn(Work work, const Cancelled& stopped, Caller caller) {
  const absl::Duration turn_max = caller == Caller::kSweep ? absl::InfiniteDuration() : turn_max_;
  // Shared: it may still be on its way out of set_value when this thread goes on.
  const auto promise = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> done = promise->get_future();
  ASSIGN_OR_RETURN(const Executor::Ticket ticket, executor_.Run([&, promise] {
    const absl::Time until = SteadyNow() + turn_max;
    const auto overdue = [until] { return SteadyNow() > until; };
    const auto work_in_turn = [&]() -> absl::Status {
      if (stopped()) return absl::CancelledError("cancelled");
      return work({.stopped = [overdue, stopped] { return overdue() || stopped(); }});
    };
    absl::Status status = Contained([&] { return RunLarge(work_in_turn); });
    if (absl::IsCancelled(status) && overdue() && !stopped()) {
      status = TooMuch(
          absl::StrCat("its configs were not found within ", absl::FormatDuration(turn_max)));
    }
    promise->set_value(std::move(status));
  }));
  while (done.wait_for(kCancelPollPeriod) != std::future_status::ready) {
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
        space.reset();
        ASSIGN_OR_RETURN(space, kernel.MakeSpace(problem, traits, effort));
        return absl::OkStatus();
      },
      cancelled, caller));
  return *std::move(space);
}

}  // namespace tune::server
