// SPDX-License-Identifier: Apache-2.0
#include "server/kernels/space_solver.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"

namespace tune::server {
namespace {

// Work that a small effort does not do for.
absl::Status Large(const SpaceEffort& effort, const std::function<absl::Status()>& work) {
  return effort.size == SpaceEffort::Size::kSmall ? absl::AbortedError("large") : work();
}

TEST(SpaceSolverTest, SmallSpacesAreFoundOnTheCallersThread) {
  SpaceSolver solver;
  int calls = 0;
  const std::thread::id own = std::this_thread::get_id();
  const auto work = [&](const SpaceEffort& effort) {
    ++calls;
    EXPECT_EQ(effort.size, SpaceEffort::Size::kSmall);
    EXPECT_EQ(std::this_thread::get_id(), own);
    return absl::InvalidArgumentError("no config is valid");
  };
  EXPECT_TRUE(absl::IsInvalidArgument(solver.Run(work, {})));
  EXPECT_EQ(calls, 1);
}

TEST(SpaceSolverTest, LargeOnesAreFoundOneAtATime) {
  SpaceSolver solver;
  std::atomic<int> inside = 0;
  std::atomic<int> done = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      const auto work = [&] {
        EXPECT_EQ(++inside, 1);
        for (int i = 0; i < 1000; ++i) std::this_thread::yield();  // others would come in here
        --inside;
        ++done;
        return absl::OkStatus();
      };
      EXPECT_TRUE(
          solver.Run([&](const SpaceEffort& effort) { return Large(effort, work); }, {}).ok());
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(done, 8);
}

// Callers whose work waits to be let go.
class Crowd {
 public:
  explicit Crowd(SpaceSolver& solver) : solver_(solver) {}
  ~Crowd() {
    release_.count_down();
    for (std::thread& caller : callers_) caller.join();
  }
  void Add() {
    callers_.emplace_back([this] {
      const auto run = [this](const SpaceEffort& effort) {
        ++asked_;
        return Large(effort, [this] {
          release_.wait();
          return absl::OkStatus();
        });
      };
      absl::Status status = solver_.Run(run, {});
      // Whoever tries whether there is room has a place meanwhile, which may be this one's.
      while (absl::IsResourceExhausted(status)) status = solver_.Run(run, {});
      EXPECT_TRUE(status.ok()) << status;
    });
  }
  // Until all have been told that a small effort does not do, and one has begun.
  void AwaitAsked() {
    while (asked_ < static_cast<int>(callers_.size()) + 1) std::this_thread::yield();
  }

 private:
  SpaceSolver& solver_;
  std::latch release_{1};
  std::atomic<int> asked_ = 0;
  std::vector<std::thread> callers_;
};

TEST(SpaceSolverTest, OneThatNobodyWaitsForLeavesTheQueue) {
  SpaceSolver solver;
  Crowd crowd(solver);
  crowd.Add();
  crowd.AwaitAsked();
  bool ran = false;
  const auto work = [&](const SpaceEffort& effort) {
    return Large(effort, [&] {
      ran = true;
      return absl::OkStatus();
    });
  };
  EXPECT_TRUE(absl::IsCancelled(solver.Run(work, [] { return true; })));
  EXPECT_FALSE(ran);
}

TEST(SpaceSolverTest, TooManyAreRefused) {
  SpaceSolver solver;
  Crowd crowd(solver);
  for (int i = 0; i < SpaceSolver::kWaitingMax; ++i) crowd.Add();
  crowd.AwaitAsked();
  absl::Status refused;
  const auto work = [&](const SpaceEffort& effort) {
    return Large(effort, [] { return absl::OkStatus(); });
  };
  // The last of them may be on its way from the small effort to the queue.
  for (int i = 0; i < 3000 && !absl::IsResourceExhausted(refused); ++i) {
    const absl::Time begin = absl::Now();
    refused = solver.Run(work, [&] { return absl::Now() > begin + absl::Milliseconds(10); });
  }
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_NE(refused.message().find("try again"), std::string::npos);
}

TEST(SpaceSolverTest, WhatRunsIsToldToEnd) {
  SpaceSolver solver;
  std::atomic<bool> cancelled = false;
  const auto work = [&](const SpaceEffort& effort) {
    return Large(effort, [&] {
      cancelled = true;  // as if the client left now
      while (!effort.stopped()) std::this_thread::yield();
      return absl::CancelledError("told");
    });
  };
  EXPECT_EQ(solver.Run(work, [&] { return cancelled.load(); }).message(), "told");
}

TEST(SpaceSolverTest, WhatRunsEndsWithTheSolver) {
  SpaceSolver solver;
  std::latch inside(1);
  std::thread caller([&] {
    const auto work = [&](const SpaceEffort& effort) {
      return Large(effort, [&] {
        inside.count_down();
        while (!effort.stopped()) std::this_thread::yield();
        return absl::CancelledError("told");
      });
    };
    EXPECT_EQ(solver.Run(work, {}).message(), "told");
  });
  inside.wait();
  solver.Stop();
  caller.join();
}

}  // namespace
}  // namespace tune::server
