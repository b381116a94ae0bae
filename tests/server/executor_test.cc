// SPDX-License-Identifier: Apache-2.0
#include "server/executor.h"

#include <gtest/gtest.h>

#include <atomic>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/notification.h"

namespace tune::server {
namespace {

TEST(ExecutorTest, RunsTasksSideBySide) {
  Executor executor(/*threads_max=*/3, /*queue_max=*/10);
  absl::Barrier* all_inside = new absl::Barrier(3);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(executor
                    .Run([all_inside] {
                      if (all_inside->Block()) delete all_inside;
                    })
                    .ok());
  }
  executor.Stop();  // would never return if two had to share a thread
}

TEST(ExecutorTest, FullQueueRefuses) {
  Executor executor(/*threads_max=*/1, /*queue_max=*/2);
  absl::Notification started;
  absl::Notification release;
  std::atomic<int> done = 0;
  ASSERT_TRUE(executor
                  .Run([&] {
                    started.Notify();
                    release.WaitForNotification();
                  })
                  .ok());
  started.WaitForNotification();
  EXPECT_TRUE(executor.Run([&] { ++done; }).ok());
  EXPECT_TRUE(executor.Run([&] { ++done; }).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(executor.Run([&] { ++done; })));
  release.Notify();
  executor.Stop();
  EXPECT_EQ(done, 2) << "what was taken is done before it stops";
  EXPECT_TRUE(absl::IsUnavailable(executor.Run([] {})));
}

}  // namespace
}  // namespace tune::server
