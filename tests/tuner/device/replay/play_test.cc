// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/replay/play.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/tuner/device/replay/recorded.h"
#include "tuner/device/replay/comparison.h"
#include "tuner/device/replay/replay_evaluator.h"

namespace tune::replay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kNone = std::numeric_limits<double>::infinity();

Config N(int64_t n) { return {{{"N", n}}}; }

TEST(ReplayEvaluatorTest, TrialsFinishInTheOrderOfTheirRecordedTimes) {
  RecordingBuilder builder({.device = "NVIDIA A100", .params = {{"N", {}}}});
  for (int64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(builder.Add({i}, {.latency_ns = 10.0 + i, .evaluate_seconds = 3.0 - i}).ok());
  }
  auto space = RecordedSpace::Create(*std::move(builder).Build());
  ASSERT_TRUE(space.ok());
  EXPECT_EQ(DeviceName(space->recording()), "replay:NVIDIA A100");
  ReplayEvaluator evaluator(*space, 2);
  ASSERT_TRUE(evaluator.Start(N(0)).ok());
  ASSERT_TRUE(evaluator.Start(N(1)).ok());
  auto first = evaluator.Next(absl::Hours(1));
  ASSERT_TRUE(first.ok() && first->has_value());
  EXPECT_EQ((*first)->config, N(1));  // 2 s against 3 s
  EXPECT_EQ((*first)->measurement.latency_ns_median, 11);
  ASSERT_TRUE(evaluator.Start(N(2)).ok());
  auto second = evaluator.Next(absl::Hours(1));
  EXPECT_EQ((*second)->config, N(0));  // both end at 3 s; this one began earlier
  auto third = evaluator.Next(absl::Hours(1));
  EXPECT_EQ((*third)->config, N(2));
  EXPECT_EQ(evaluator.elapsed(), absl::Seconds(3));
  EXPECT_FALSE(evaluator.Next(absl::Hours(1))->has_value());
  EXPECT_THAT(evaluator.Start(N(9)).message(), HasSubstr("N=9"));
}

TEST(PlayTest, EachTrialCountsFailedOrNot) {
  const RecordedSpace space = MakeRecordedSpace({0, 30, 20, 0, 40});
  auto played = Play(space, {.strategy = "exhaustive"});
  ASSERT_TRUE(played.ok()) << played.status();
  EXPECT_THAT(played->best_ns, ElementsAre(kNone, 30, 20, 20, 20));
  EXPECT_EQ(played->summary.outcomes.at(Outcome::kCompileFailed), 2u);
  EXPECT_EQ(played->recorded_seconds, 5);
  EXPECT_EQ(played->overhead_us.size(), 5u);
}

TEST(PlayTest, ABudgetInSecondsIsOfTheRecordedTime) {
  const RecordedSpace space = MakeRecordedSpace({50, 30, 20, 10, 40}, 2);
  PlayOptions options{.strategy = "exhaustive"};
  options.budget.time = absl::Seconds(5);
  auto played = Play(space, options);
  ASSERT_TRUE(played.ok()) << played.status();
  EXPECT_EQ(played->best_ns.size(), 2u);  // the third would end at 6 s
  EXPECT_EQ(played->summary.dropped, 1u);
  EXPECT_EQ(played->summary.end, SweepEnd::kTime);
  options.in_flight = 2;  // two a time
  EXPECT_EQ(Play(space, options)->best_ns.size(), 4u);
  EXPECT_THAT(Play(MakeRecordedSpace({50}, 0), options).status().message(),
              HasSubstr("budget in trials"));
  options.strategy = "clairvoyant";
  EXPECT_THAT(Play(space, options).status().message(), HasSubstr("random"));
}

TEST(PlayTest, TheSameSeedPlaysTheSame) {
  auto space = RecordedSpace::Create(Load("convolution-A100"));
  ASSERT_TRUE(space.ok());
  PlayOptions options{.strategy = "random", .seed = 7};
  options.budget.trials = 100;
  auto one = Play(*space, options);
  auto two = Play(*space, options);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(one->best_ns, two->best_ns);
  EXPECT_EQ(one->best_ns.size(), 100u);
  options.seed = 8;
  EXPECT_NE(Play(*space, options)->best_ns, one->best_ns);
}

TEST(PlayTest, EveryStrategyPlaysWithManyInFlight) {
  auto space = RecordedSpace::Create(Load("convolution-A100"));
  ASSERT_TRUE(space.ok());
  for (const std::string& name : StrategyNames()) {
    PlayOptions options{.strategy = name, .in_flight = 8};
    options.budget.trials = 40;
    auto played = Play(*space, options);
    ASSERT_TRUE(played.ok()) << name << ": " << played.status();
    EXPECT_EQ(played->best_ns.size(), 40u) << name;
  }
}

TEST(PriorTest, KeepsTheFastestAndSpreadsOverTheRest) {
  std::vector<double> latencies_ns;
  for (int i = 0; i < 100; ++i) latencies_ns.push_back(i < 10 ? 0 : 1000.0 - i);
  const RecordedSpace space = MakeRecordedSpace(latencies_ns);
  const auto all = PriorOf(space.recording(), 3, 200);
  EXPECT_EQ(all.size(), 100u);
  const auto some = PriorOf(space.recording(), 3, 20);
  ASSERT_EQ(some.size(), 20u);
  EXPECT_EQ(some[0].config, N(99));
  EXPECT_EQ(some[0].relative_latency, 1);
  EXPECT_EQ(some[9].config, N(90));
  EXPECT_EQ(some[9].source, 3u);
  EXPECT_EQ(some[19].outcome, Outcome::kCompileFailed);
  for (size_t i = 1; i < 18; ++i) {
    EXPECT_GE(some[i].relative_latency, some[i - 1].relative_latency);
  }
  EXPECT_TRUE(PriorOf(MakeRecordedSpace({0, 0}).recording(), 0, 10).empty());
}

TEST(ComparisonTest, ARunThatEndedEarlyKeepsItsLastBest) {
  std::vector<Played> runs(3);
  runs[0].best_ns = {kNone, 20, 10};
  runs[1].best_ns = {kNone, 40};
  runs[2].best_ns = {30, 10.4, 10.4};
  runs[0].overhead_us = {1, 2, 9};
  const RunsSummary summary = Summarise(runs, 10, 4);
  ASSERT_EQ(summary.after.size(), 4u);
  EXPECT_EQ(summary.after[0].median, kNone);
  EXPECT_EQ(summary.after[1].median, 2);
  EXPECT_DOUBLE_EQ(summary.after[3].median, 1.04);
  EXPECT_DOUBLE_EQ(summary.after[3].low, 1.02);
  EXPECT_DOUBLE_EQ(summary.after[3].high, 2.52);
  EXPECT_DOUBLE_EQ(summary.within_5_percent, 2.0 / 3);
  EXPECT_DOUBLE_EQ(summary.hit_optimum, 1.0 / 3);
  EXPECT_EQ(summary.overhead_us_median, 2);
  EXPECT_EQ(summary.evaluations_median, 3u);
  EXPECT_DOUBLE_EQ(GeometricMean({1.0, 4.0}), 2);
}

}  // namespace
}  // namespace tune::replay
