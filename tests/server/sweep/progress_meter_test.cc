// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/progress_meter.h"

#include <gtest/gtest.h>

namespace tune::server {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

absl::Time At(double seconds) { return kStart + absl::Seconds(seconds); }

TEST(ProgressMeterTest, NothingIsKnownBeforeTheFirstTrial) {
  ProgressMeter meter(kStart);
  EXPECT_EQ(meter.TrialsPerSecond(At(0)), 0);
  EXPECT_EQ(meter.RemainingSeconds(At(3), 100, 0), 0);
  EXPECT_DOUBLE_EQ(meter.RemainingSeconds(At(3), 100, 60), 57) << "the budget is all there is";
}

TEST(ProgressMeterTest, SteadyRate) {
  ProgressMeter meter(kStart);
  for (int i = 1; i <= 400; ++i) meter.Finished(At(i * 0.1));
  EXPECT_NEAR(meter.TrialsPerSecond(At(40)), 10, 0.1);
  EXPECT_NEAR(meter.RemainingSeconds(At(40), 50, 0), 5, 0.1);
  EXPECT_DOUBLE_EQ(meter.ElapsedSeconds(At(40)), 40);
}

TEST(ProgressMeterTest, RateFollowsTheLastSeconds) {
  ProgressMeter meter(kStart);
  for (int i = 1; i <= 100; ++i) meter.Finished(At(i * 0.01));    // 100 a second
  for (int i = 1; i <= 60; ++i) meter.Finished(At(1 + i * 0.5));  // then 2 a second
  EXPECT_NEAR(meter.TrialsPerSecond(At(31)), 2, 0.1);
}

TEST(ProgressMeterTest, SlowTrialsStillHaveARate) {
  ProgressMeter meter(kStart);
  for (int i = 1; i <= 12; ++i) meter.Finished(At(i * 30.0));  // none of them twice in 15 s
  EXPECT_NEAR(meter.TrialsPerSecond(At(360)), 1 / 30.0, 0.001);
}

TEST(ProgressMeterTest, BudgetCutsTheEstimate) {
  ProgressMeter meter(kStart);
  for (int i = 1; i <= 10; ++i) meter.Finished(At(i));
  EXPECT_NEAR(meter.RemainingSeconds(At(10), 1000, 45), 35, 0.1);
  EXPECT_EQ(meter.RemainingSeconds(At(50), 1000, 45), 0);
}

}  // namespace
}  // namespace tune::server
