// SPDX-License-Identifier: Apache-2.0
#include "tuner/sweep/stop_rules.h"

#include <gtest/gtest.h>

namespace tune {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

TEST(StopRules, NoBudgetNeverEnds) {
  StopRules rules(SweepBudget{}, kStart);
  for (int i = 0; i < 10'000; ++i) {
    rules.Started(std::nullopt);
    rules.Finished(5.0);
    ASSERT_EQ(rules.Check(0, kStart + absl::Hours(1000)), SweepEnd::kNone);
  }
}

TEST(StopRules, TrialsInFlightCountAgainstTheBudget) {
  StopRules rules(SweepBudget{.trials = 3}, kStart);
  rules.Finished(1.0);
  EXPECT_EQ(rules.Check(1, kStart), SweepEnd::kNone);
  EXPECT_EQ(rules.Check(2, kStart), SweepEnd::kTrials);
}

TEST(StopRules, EndsWithTheTime) {
  StopRules rules(SweepBudget{.time = absl::Seconds(10)}, kStart);
  EXPECT_EQ(rules.Check(0, kStart + absl::Seconds(9)), SweepEnd::kNone);
  EXPECT_EQ(rules.Check(0, kStart + absl::Seconds(10)), SweepEnd::kTime);
}

TEST(StopRules, EndsWithoutImprovementOnceSomethingWorks) {
  StopRules rules(SweepBudget{.trials_without_improvement = 3}, kStart);
  for (int i = 0; i < 50; ++i) rules.Finished(std::nullopt);
  EXPECT_EQ(rules.Check(0, kStart), SweepEnd::kNone) << "nothing works yet";
  rules.Finished(100.0);
  rules.Finished(99.99);  // no improvement: a hundredth of a percent
  rules.Finished(std::nullopt);
  EXPECT_EQ(rules.Check(0, kStart), SweepEnd::kNone);
  rules.Finished(120.0);
  EXPECT_EQ(rules.Check(0, kStart), SweepEnd::kNoImprovement);
  rules.Finished(90.0);
  EXPECT_EQ(rules.Check(0, kStart), SweepEnd::kNone);
}

TEST(StopRules, EndsWhenTheModelSeesNoChance) {
  StopRules rules(SweepBudget{.improvement_chance_min = 0.01}, kStart);
  rules.Finished(100.0);
  for (size_t i = 0; i < kChanceWindow; ++i) rules.Started(0.5);
  EXPECT_EQ(rules.Check(0, kStart), SweepEnd::kNone);
  for (size_t i = 0; i + 1 < kChanceWindow; ++i) rules.Started(0.0);
  EXPECT_EQ(rules.Check(0, kStart), SweepEnd::kNone) << "one of 16 still had one half";
  rules.Started(0.0);
  EXPECT_EQ(rules.Check(0, kStart), SweepEnd::kImprovementUnlikely);
}

// Without a model the chance after n trials is 1 / (n + 1), below 1 % from 100 on.
TEST(StopRules, WithoutAModelRecordsBecomeRare) {
  StopRules rules(SweepBudget{.improvement_chance_min = 0.01}, kStart);
  int trials = 0;
  while (rules.Check(0, kStart) == SweepEnd::kNone && trials < 1000) {
    rules.Started(std::nullopt);
    rules.Finished(1.0 + trials++);
  }
  EXPECT_GT(trials, 99);
  EXPECT_LT(trials, 120);
}

TEST(StopRules, TheFirstThatHoldsIsNamed) {
  StopRules rules(SweepBudget{.trials = 1, .time = absl::Seconds(1)}, kStart);
  rules.Finished(1.0);
  EXPECT_EQ(rules.Check(0, kStart), SweepEnd::kTrials);
  EXPECT_EQ(ToText(SweepEnd::kTrials), "the budget of trials was spent");
}

}  // namespace
}  // namespace tune
