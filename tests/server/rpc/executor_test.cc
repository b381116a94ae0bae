// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/executor.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <latch>

namespace tune::server {
namespace {

TEST(ExecutorTest, RunsTasksSideBySide) {
  Executor executor(/*threads_max=*/3, /*queue_max=*/10);
  std::latch all_inside(3);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(executor.Run([&] { all_inside.arrive_and_wait(); }).ok());
  }
  executor.Stop();  // would never return if two had to share a thread
}

// An executor whose only thread is kept.
class BusyExecutor {
 public:
  explicit BusyExecutor(size_t queue_max) : executor(/*threads_max=*/1, queue_max) {
    EXPECT_TRUE(executor
                    .Run([this] {
                      started_.count_down();
                      release_.wait();
                    })
                    .ok());
    started_.wait();
  }
  ~BusyExecutor() { Release(); }
  void Release() {
    if (!released_.exchange(true)) release_.count_down();
  }

 private:
  std::atomic<bool> released_ = false;
  std::latch started_{1};
  std::latch release_{1};

 public:
  Executor executor;
};

TEST(ExecutorTest, FullQueueRefuses) {
  BusyExecutor busy(/*queue_max=*/2);
  std::atomic<int> done = 0;
  EXPECT_TRUE(busy.executor.Run([&] { ++done; }).ok());
  EXPECT_TRUE(busy.executor.Run([&] { ++done; }).ok());
  const absl::Status refused = busy.executor.Run([&] { ++done; }).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_NE(refused.message().find("try again"), std::string::npos) << refused;
  busy.Release();
  busy.executor.Stop();
  EXPECT_EQ(done, 2) << "what was taken is done before it stops";
  EXPECT_TRUE(absl::IsUnavailable(busy.executor.Run([] {}).status()));
}

TEST(ExecutorTest, WhatIsDroppedMakesRoomAndNeverRuns) {
  BusyExecutor busy(/*queue_max=*/1);
  std::atomic<int> done = 0;
  const absl::StatusOr<Executor::Ticket> dropped = busy.executor.Run([&] { done += 100; });
  ASSERT_TRUE(dropped.ok());
  EXPECT_TRUE(absl::IsResourceExhausted(busy.executor.Run([] {}).status()));
  EXPECT_TRUE(busy.executor.Drop(*dropped));
  EXPECT_FALSE(busy.executor.Drop(*dropped)) << "it is gone";
  EXPECT_TRUE(busy.executor.Run([&] { ++done; }).ok());
  busy.Release();
  busy.executor.Stop();
  EXPECT_EQ(done, 1);
}

TEST(ExecutorTest, WhatRunsIsToldOfTheStop) {
  Executor executor(/*threads_max=*/1, /*queue_max=*/1);
  std::latch started(1);
  ASSERT_TRUE(executor
                  .Run([&] {
                    started.count_down();
                    while (!executor.stopping()) sched_yield();
                  })
                  .ok());
  started.wait();
  executor.Stop();  // would never return
}

TEST(ExecutorTest, ThreadsOfLowPriorityGiveWay) {
  int niceness = 0;
  int policy = 0;
  Executor low(/*threads_max=*/1, /*queue_max=*/1, Executor::Priority::kLow);
  ASSERT_TRUE(low.Run([&] {
                   niceness = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
                   policy = sched_getscheduler(0);
                 })
                  .ok());
  low.Stop();
  const int own = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
  EXPECT_TRUE(niceness > own || niceness == 19) << niceness << " beside " << own;
  EXPECT_EQ(policy, SCHED_BATCH);
  EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER) << "nobody else's";
}

}  // namespace
}  // namespace tune::server
