// SPDX-License-Identifier: Apache-2.0
#include "server/executor.h"

#include <gtest/gtest.h>

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

TEST(ExecutorTest, FullQueueRefuses) {
  Executor executor(/*threads_max=*/1, /*queue_max=*/2);
  std::latch started(1);
  std::latch release(1);
  std::atomic<int> done = 0;
  ASSERT_TRUE(executor
                  .Run([&] {
                    started.count_down();
                    release.wait();
                  })
                  .ok());
  started.wait();
  EXPECT_TRUE(executor.Run([&] { ++done; }).ok());
  EXPECT_TRUE(executor.Run([&] { ++done; }).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(executor.Run([&] { ++done; })));
  release.count_down();
  executor.Stop();
  EXPECT_EQ(done, 2) << "what was taken is done before it stops";
  EXPECT_TRUE(absl::IsUnavailable(executor.Run([] {})));
}

}  // namespace
}  // namespace tune::server
