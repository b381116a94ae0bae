// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/submission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/kernels/kernel_source.h"

namespace tune::server {
namespace {

db::SweepRow Chosen(const std::string& target, uint64_t space_size, uint64_t trials = 0,
                    double seconds = 0, const std::string& strategy = "") {
  db::SweepRow sweep{
      .target = target, .strategy = strategy, .budget_trials = trials, .budget_seconds = seconds};
  ChooseStrategy(space_size, sweep);
  return sweep;
}

TEST(ChooseStrategyTest, SmallSpacesAreSweptWhole) {
  EXPECT_EQ(Chosen("sm_90a", 4096).strategy, "exhaustive");
  EXPECT_EQ(Chosen("sm_90a", 4096).budget_trials, 0u);
}

TEST(ChooseStrategyTest, LargeSpacesAreSearched) {
  EXPECT_EQ(Chosen("sm_90a", 4097).strategy, "auto");
  EXPECT_EQ(Chosen("sm_90a", 4097).budget_trials, 1000u);
}

TEST(ChooseStrategyTest, ABudgetMeansASearch) {
  EXPECT_EQ(Chosen("sm_90a", 100, /*trials=*/10).strategy, "auto");
  EXPECT_EQ(Chosen("sm_90a", 100, /*trials=*/0, /*seconds=*/5).strategy, "auto");
  EXPECT_EQ(Chosen("sm_90a", 100000, /*trials=*/0, /*seconds=*/5).budget_trials, 0u);
}

TEST(ChooseStrategyTest, ASpaceWithinTheBudgetIsSweptWhole) {
  EXPECT_EQ(Chosen("sm_90a", 100, /*trials=*/100).strategy, "exhaustive");
  EXPECT_EQ(Chosen("sm_90a", 100, /*trials=*/100, /*seconds=*/5).strategy, "auto");
}

TEST(ChooseStrategyTest, TheCpuGetsATimeBudgetUnlessThereIsOne) {
  EXPECT_GT(Chosen("cpu", 100).budget_seconds, 0);
  EXPECT_EQ(Chosen("cpu", 100).strategy, "auto");
  EXPECT_GT(Chosen("cpu", 100, 0, 0, "exhaustive").budget_seconds, 0);
  EXPECT_EQ(Chosen("cpu", 100, /*trials=*/10).budget_seconds, 0);
}

TEST(ChooseStrategyTest, AStrategyAskedForIsKept) {
  EXPECT_EQ(Chosen("sm_90a", 1'000'000, 0, 0, "exhaustive").strategy, "exhaustive");
  EXPECT_EQ(Chosen("sm_90a", 1'000'000, 0, 0, "exhaustive").budget_trials, 0u);
}

TEST(BudgetTest, ASubmittersSweepIsBoundedByAFlagThatIsNamed) {
  v1::Budget budget;
  budget.set_seconds(30 * 24 * 3600);
  EXPECT_TRUE(CheckBudgetWithin(absl::InfiniteDuration(), budget).ok()) << "operators have none";
  const absl::Status refused = CheckBudgetWithin(absl::Hours(1), budget);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              testing::AllOf(testing::HasSubstr("a budget of 720h: a sweep of a submitter may have "
                                                "a device for 1h"),
                             testing::HasSubstr("--job-seconds-per-principal")));
  budget.set_seconds(3600);
  EXPECT_TRUE(CheckBudgetWithin(absl::Hours(1), budget).ok());
}

TEST(BudgetTest, ASubmittersSweepWithoutOneGetsTheBound) {
  db::SweepRow sweep{.budget_trials = 100};
  BoundBudget(absl::InfiniteDuration(), sweep);
  EXPECT_EQ(sweep.budget_seconds, 0);
  BoundBudget(absl::Hours(1), sweep);
  EXPECT_EQ(sweep.budget_seconds, 3600);
  sweep.budget_seconds = 60;
  BoundBudget(absl::Hours(1), sweep);
  EXPECT_EQ(sweep.budget_seconds, 60);
}

TEST(PlannedTrialsTest, TheBudgetOrTheSpace) {
  EXPECT_EQ(PlannedTrials({.budget_trials = 0}, 7), 7u);
  EXPECT_EQ(PlannedTrials({.budget_trials = 5}, 7), 5u);
  EXPECT_EQ(PlannedTrials({.budget_trials = 50}, 7), 7u);
}

TEST(ParseKernelSourceTest, LimitsComeBeforeParsing) {
  v1::KernelSource source;
  source.set_spec_name("k.textproto");
  source.set_spec_text(std::string(kSourceBytesMax + 1, ' '));
  EXPECT_TRUE(absl::IsInvalidArgument(ParseKernelSource(source).status()));

  source.set_spec_text("");
  for (int i = 0; i <= kSourceFilesMax; ++i) (*source.mutable_files())[std::to_string(i)] = "";
  EXPECT_TRUE(absl::IsInvalidArgument(ParseKernelSource(source).status()));
}

TEST(ParseKernelSourceTest, NamesFitOnALine) {
  v1::KernelSource source;
  source.set_spec_name("a\nb");
  EXPECT_TRUE(absl::IsInvalidArgument(ParseKernelSource(source).status()));
}

TEST(ParseKernelSourceTest, ErrorsHaveTheirPlace) {
  v1::KernelSource source;
  source.set_spec_name("mine.textproto");
  source.set_spec_text("name: 'mine'\nspeling: 1\n");
  const absl::Status status = ParseKernelSource(source).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message().find("mine.textproto:2:"), 0u) << status;
}

}  // namespace
}  // namespace tune::server
