// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/replay/score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/tuner/device/replay/recorded.h"
#include "tuner/device/replay/play.h"

namespace tune::replay {
namespace {

constexpr double kNoCurve = std::numeric_limits<double>::infinity();

TEST(ScoreTest, QuantilesInterpolate) {
  EXPECT_EQ(QuantileOf({1.0, 2.0, 4.0}, 0.5), 2);
  EXPECT_EQ(QuantileOf({1.0, 2.0}, 0.5), 1.5);
  EXPECT_EQ(QuantileOf({1.0}, 0.25), 1);
  EXPECT_EQ(QuantileOf({1.0, kNoCurve, kNoCurve}, 0.75), kNoCurve);
}

TEST(ScoreTest, RandomMedianOfASmallSpaceByHand) {
  const Recording recording = MakeRecordedSpace({10, 20, 30, 0}).recording();
  // A draw of 4: the best with chance 1/4, the best two 1/2.
  EXPECT_EQ(RandomMedianNs(recording, 1), 20);
  // Two draws: the best is among them with chance 1/2.
  EXPECT_EQ(RandomMedianNs(recording, 2), 10);
  EXPECT_EQ(RandomMedianNs(recording, 4), 10);
  EXPECT_EQ(RandomMedianNs(MakeRecordedSpace({10, 0, 0, 0}).recording(), 1), kNoCurve);
}

// The figures beside these recordings were computed by others' code.
TEST(ScoreTest, AgreesWithPublishedFigures) {
  const Recording a100 = Load("convolution-A100");
  const double optimum_ns = a100.trials[*a100.Best()].latency_ns;
  EXPECT_NEAR(RandomMedianNs(a100, 25) / optimum_ns, 1.6579, 5e-5);
  EXPECT_NEAR(RandomMedianNs(a100, 50) / optimum_ns, 1.5293, 5e-5);
  EXPECT_NEAR(RandomMedianNs(a100, 100) / optimum_ns, 1.4401, 5e-5);
  EXPECT_NEAR(RandomMedianNs(a100, 200) / optimum_ns, 1.3053, 5e-5);
  EXPECT_EQ(MethodologyScore(a100).evaluations(), 1050u);
  EXPECT_EQ(MethodologyScore(Load("convolution-A4000")).evaluations(), 323u);
}

// 19 latencies: 10, 10.1, 20, 30, ... 180; the median is 90. Within 5 % of the gap to it are two,
// so 17 are slower and random search needs ceil(17 / (20 - 17)) = 6 evaluations; 10 are slower than
// what opens 1 % of the gap, so the score starts at ceil(10 / (20 - 10)) = 1 and runs to 5.
TEST(ScoreTest, ByHand) {
  std::vector<double> latencies_ns = {10.1, 10};
  for (int i = 2; i <= 18; ++i) latencies_ns.push_back(10.0 * i);
  const MethodologyScore score(MakeRecordedSpace(latencies_ns).recording());
  EXPECT_EQ(score.evaluations(), 6u);
  // Random search after k is at place round(20 k / (k + 1)) from the worst: 10, 13, 15, 16, 17,
  // that is 80, 50, 30, 20 and 10.1. The mean ranks 13.5, 11.5, 5, 2 and 0.5 round to even: 140,
  // 120, 50, 20 and 10.
  const double expected =
      ((80.0 - 140) / 70 + (50.0 - 120) / 40 + (30.0 - 50) / 20 + 0 / 10.0 + 1) / 5;
  EXPECT_NEAR(score.Of({{90, 50, 50, 20, 10}, {180, 180, 50, 20, 10.1}}), expected, 1e-12);
  // A run that ended keeps its last: as far as it went the second is as above.
  EXPECT_NEAR(score.Of({{90, 50, 50, 20, 10, 10}, {180, 180, 50, 20, 10.1}}), expected, 1e-12);
}

TEST(ScoreTest, TheOptimumAtOnceIsOneAndTheWorstIsFarBelow) {
  const Recording recording = Load("convolution-A4000");
  const MethodologyScore score(recording);
  const double optimum_ns = recording.trials[*recording.Best()].latency_ns;
  EXPECT_DOUBLE_EQ(score.Of({{optimum_ns}}), 1);
  EXPECT_LT(score.Of({{kNoCurve}}), -10);
  // The mean rank: one bad run of two costs much.
  EXPECT_LT(score.Of({{optimum_ns}, {kNoCurve}}), 0);
}

TEST(ScoreTest, RandomSearchIsNearZero) {
  auto space = RecordedSpace::Create(Load("convolution-A4000"));
  ASSERT_TRUE(space.ok());
  const MethodologyScore score(space->recording());
  std::vector<std::vector<double>> runs;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    PlayOptions options{.strategy = "random", .seed = seed};
    options.budget.trials = score.evaluations();
    auto played = Play(*space, options);
    ASSERT_TRUE(played.ok());
    runs.push_back(played->best_ns);
  }
  // Failed configs cost random search a little against a baseline without them.
  EXPECT_NEAR(score.Of(runs), -0.05, 0.15);
}

}  // namespace
}  // namespace tune::replay
