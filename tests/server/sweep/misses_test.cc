// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/misses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

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

DeviceStatus Gpu(const std::string& id, const std::string& name, DeviceState state) {
  DeviceStatus status;
  status.id = id;
  status.info.name = name;
  status.state = state;
  return status;
}

TEST(DevicesForMissTest, MissesAreSpreadOverTheUsableDevicesOfTheName) {
  const std::vector<DeviceStatus> known = {Gpu("cuda:0", "H100", DeviceState::kQuarantined),
                                           Gpu("cuda:1", "H100", DeviceState::kHealthy),
                                           Gpu("cuda:2", "L4", DeviceState::kHealthy),
                                           Gpu("cuda:3", "H100", DeviceState::kSuspect)};
  EXPECT_THAT(DevicesForMiss(known, "H100", 0).value(), testing::ElementsAre("cuda:1", "cuda:3"));
  EXPECT_THAT(DevicesForMiss(known, "H100", 1).value(), testing::ElementsAre("cuda:3", "cuda:1"));
  EXPECT_TRUE(absl::IsNotFound(DevicesForMiss(known, "A100", 0).status()));
  const absl::Status away = DevicesForMiss({known[0]}, "H100", 0).status();
  EXPECT_TRUE(absl::IsUnavailable(away)) << away;
  EXPECT_THAT(std::string(away.message()), testing::HasSubstr("cuda:0 cannot be used now"));
}

}  // namespace
}  // namespace tune::server
