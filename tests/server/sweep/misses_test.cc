// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/misses.h"

#include <gtest/gtest.h>

namespace tune::server {
namespace {

absl::Duration PauseAfter(int tries, db::JobState state = db::JobState::kDone) {
  const db::JobRow last{.state = state, .finished_unix_ms = 1'000};
  return RetryTime(tries, last) - absl::FromUnixMillis(last.finished_unix_ms);
}

TEST(RetryTimeTest, PausesGrowToADay) {
  EXPECT_EQ(PauseAfter(1), absl::Minutes(10));
  EXPECT_EQ(PauseAfter(2), absl::Minutes(40));
  EXPECT_EQ(PauseAfter(2, db::JobState::kFailed), absl::Minutes(40));
  EXPECT_EQ(PauseAfter(5), absl::Hours(24));
  EXPECT_EQ(PauseAfter(100), absl::Hours(24));
}

TEST(RetryTimeTest, WhatSomebodyCancelledRestsForADay) {
  EXPECT_EQ(PauseAfter(1, db::JobState::kCancelled), absl::Hours(24));
}

}  // namespace
}  // namespace tune::server
