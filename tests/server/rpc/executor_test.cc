// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/executor.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"

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

Sharer Caller(const std::string& name) { return {.name = name, .has_reserve = false}; }

// Queues a task for somebody.
absl::Status RunFor(Executor& executor, const Sharer& sharer, std::function<void()> task) {
  const ActingFor acting(sharer);
  return executor.Run(std::move(task)).status();
}

TEST(ExecutorTest, CallersTakeTurnsHoweverManyTasksEachHasQueued) {
  BusyExecutor busy(/*queue_max=*/100);
  std::mutex mutex;
  std::string order;
  const auto note = [&](char who) {
    return [&, who] {
      std::lock_guard lock(mutex);
      order.push_back(who);
    };
  };
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(RunFor(busy.executor, Caller("m"), note('m')).ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(RunFor(busy.executor, Caller("a"), note('a')).ok());
  busy.Release();
  busy.executor.Stop();
  EXPECT_EQ(order, "mamamm");
}

TEST(ExecutorTest, ACallerHasPartOfTheThreadsAndOthersTheRest) {
  Executor executor(/*threads_max=*/4, /*queue_max=*/100, Executor::Priority::kNormal,
                    /*threads_per_principal=*/2);
  std::latch release(1);
  std::atomic<int> inside = 0;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(RunFor(executor, Caller("m"), [&] {
                  ++inside;
                  release.wait();
                }).ok());
  }
  std::latch other_ran(1);
  ASSERT_TRUE(RunFor(executor, Caller("a"), [&] { other_ran.count_down(); }).ok());
  other_ran.wait();  // would never return if the first had all threads
  EXPECT_LE(inside, 2);
  release.count_down();
  executor.Stop();
  EXPECT_EQ(inside, 8);
}

TEST(ExecutorTest, OperatorsHaveAThreadAndAPlaceThatNobodyElseTakes) {
  Executor executor(/*threads_max=*/4, /*queue_max=*/4);
  std::latch release(1);
  absl::Status refused;
  for (int i = 0; i < 20; ++i) {
    const absl::Status queued =
        RunFor(executor, Caller("m" + std::to_string(i)), [&] { release.wait(); });
    if (!queued.ok()) refused = queued;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  std::latch ran(1);
  ASSERT_TRUE(RunFor(executor, {.name = "op"}, [&] { ran.count_down(); }).ok());
  ran.wait();
  release.count_down();
}

TEST(ExecutorTest, TwoThreadsAreEnoughForOneThatOnlyOperatorsHave) {
  Executor executor(/*threads_max=*/2, /*queue_max=*/4);
  std::latch started(1), release(1), ran(1);
  ASSERT_TRUE(RunFor(executor, Caller("m"), [&] {
                started.count_down();
                release.wait();
              }).ok());
  ASSERT_TRUE(RunFor(executor, Caller("a"), [&] { release.wait(); }).ok());
  started.wait();
  ASSERT_TRUE(RunFor(executor, {.name = "op"}, [&] { ran.count_down(); }).ok());
  ran.wait();  // would never return if both threads were taken
  release.count_down();
}

TEST(ExecutorsTest, HeavyCallsLeaveAThreadToOthersAndOneToOperators) {
  Executors executors;
  std::latch release(1), of_a(1), of_operator(1);
  std::atomic<int> of_m = 0;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(RunFor(executors.heavy, Caller("m"), [&] {
                  ++of_m;
                  release.wait();
                }).ok());
  }
  ASSERT_TRUE(RunFor(executors.heavy, Caller("a"), [&] {
                of_a.count_down();
                release.wait();
              }).ok());
  of_a.wait();
  ASSERT_TRUE(RunFor(executors.heavy, {.name = "op"}, [&] { of_operator.count_down(); }).ok());
  of_operator.wait();
  EXPECT_LE(of_m, 1);
  release.count_down();
  executors.Stop();
  EXPECT_EQ(of_m, 3);
}

TEST(ExecutorTest, OneCallersQueueLeavesRoomForOthers) {
  BusyExecutor busy(/*queue_max=*/4);
  ASSERT_TRUE(RunFor(busy.executor, Caller("m"), [] {}).ok());
  ASSERT_TRUE(RunFor(busy.executor, Caller("m"), [] {}).ok());
  const absl::Status refused = RunFor(busy.executor, Caller("m"), [] {});
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_NE(refused.message().find("of m are waiting"), std::string::npos) << refused;
  EXPECT_TRUE(RunFor(busy.executor, Caller("a"), [] {}).ok());
}

TEST(ExecutorTest, ACallerWhoseAnswersAreNotTakenWaitsAlone) {
  Executor executor(/*threads_max=*/4, /*queue_max=*/100, Executor::Priority::kNormal,
                    /*threads_per_principal=*/1);
  std::mutex mutex;
  std::vector<Executor::Place> unread;
  std::atomic<int> ran = 0;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(RunFor(executor, Caller("m"), [&] {
                  std::lock_guard lock(mutex);
                  unread.push_back(Executor::ThisPlace());
                  ++ran;
                }).ok());
  }
  std::latch other_ran(1);
  ASSERT_TRUE(RunFor(executor, Caller("a"), [&] { other_ran.count_down(); }).ok());
  other_ran.wait();
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_LE(ran, 2);
  while (ran < 10) {  // as they are read, the rest runs
    std::vector<Executor::Place> read;
    {
      std::lock_guard lock(mutex);
      read.swap(unread);
    }
    read.clear();
    std::this_thread::yield();
  }
  unread.clear();
  executor.Stop();
}

TEST(ExecutorTest, ATaskActsForWhoeverQueuedIt) {
  Executor executor(/*threads_max=*/1, /*queue_max=*/10);
  Sharer seen;
  ASSERT_TRUE(RunFor(executor, Caller("alice"), [&] { seen = ActingFor::Current(); }).ok());
  executor.Stop();
  EXPECT_EQ(seen, Caller("alice"));
  EXPECT_EQ(ActingFor::Current(), Sharer());
}

}  // namespace
}  // namespace tune::server
