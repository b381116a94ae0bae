// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/device_time.h"

#include <gtest/gtest.h>

namespace tune::server {
namespace {

const absl::Time kNoon = absl::FromUnixSeconds(1'800'000'000 / 3600 * 3600);

TEST(DeviceTimeTest, AddsWhatEachOwnersJobsHad) {
  DeviceTime time;
  time.Add("alice", kNoon, kNoon + absl::Minutes(10));
  time.Add("alice", kNoon + absl::Minutes(50), kNoon + absl::Minutes(70));
  time.Add("bob", kNoon, kNoon + absl::Seconds(1));
  const absl::Time now = kNoon + absl::Minutes(80);
  EXPECT_EQ(time.Of("alice", now), absl::Minutes(30));
  EXPECT_EQ(time.Of("bob", now), absl::Seconds(1));
  EXPECT_EQ(time.Of("carol", now), absl::ZeroDuration());
}

TEST(DeviceTimeTest, WhatIsADayOldIsForgotten) {
  DeviceTime time;
  time.Add("alice", kNoon - absl::Minutes(30), kNoon + absl::Minutes(30));
  EXPECT_EQ(time.Of("alice", kNoon + absl::Hours(22)), absl::Hours(1));
  EXPECT_EQ(time.Of("alice", kNoon + absl::Hours(23)), absl::Minutes(30));
  EXPECT_EQ(time.Of("alice", kNoon + absl::Hours(24)), absl::ZeroDuration());
  time.Add("alice", kNoon, kNoon + absl::Hours(100));
  EXPECT_EQ(time.Of("alice", kNoon + absl::Hours(100)), absl::Hours(23))
      << "no more than the window has: the hour that goes on has only begun";
}

TEST(DeviceTimeTest, AClockThatWasSetBackTakesNothingAway) {
  DeviceTime time;
  time.Add("alice", kNoon, kNoon - absl::Hours(1));
  EXPECT_EQ(time.Of("alice", kNoon), absl::ZeroDuration());
}

}  // namespace
}  // namespace tune::server
