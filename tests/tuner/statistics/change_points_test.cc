// SPDX-License-Identifier: Apache-2.0
#include "tuner/statistics/change_points.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tuner/statistics/distributions.h"

namespace tune {
namespace {

std::vector<double> Series(uint64_t seed, const std::vector<std::pair<int, double>>& levels,
                           double deviation) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, deviation);
  std::vector<double> values;
  for (const auto& [count, level] : levels) {
    for (int i = 0; i < count; ++i) values.push_back(level * (1 + normal(random)));
  }
  return values;
}

TEST(ChangePoints, FindsAStepAndItsSize) {
  int exact = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto points = FindChangePoints(Series(seed, {{30, 100}, {20, 103}}, 0.005), {});
    ASSERT_EQ(points.size(), 1) << seed;
    EXPECT_NEAR(static_cast<double>(points[0].index), 30, 1) << seed;
    exact += points[0].index == 30 ? 1 : 0;
    EXPECT_NEAR(points[0].after / points[0].before, 1.03, 0.005);
    EXPECT_LT(points[0].p, 0.001);
  }
  EXPECT_GE(exact, 18);
}

TEST(ChangePoints, FindsUpAndDownAndStaysSorted) {
  const auto points =
      FindChangePoints(Series(5, {{25, 100}, {15, 110}, {30, 100}, {20, 95}}, 0.006), {});
  ASSERT_EQ(points.size(), 3);
  EXPECT_EQ(points[0].index, 25);
  EXPECT_EQ(points[1].index, 40);
  EXPECT_EQ(points[2].index, 70);
}

// The place of a split is chosen, so p is that of the best of many: in noise as large as the least
// change one series of 80 values in twenty has a false one. In half that noise the least change
// keeps them out.
TEST(ChangePoints, QuietSeriesHaveFew) {
  constexpr int kRepeats = 300;
  for (const auto& [deviation, share] : {std::pair(0.005, 0.01), {0.01, 0.08}}) {
    int invented = 0;
    for (uint64_t seed = 0; seed < kRepeats; ++seed) {
      invented += FindChangePoints(Series(seed, {{80, 100}}, deviation), {}).empty() ? 0 : 1;
    }
    EXPECT_LT(ClopperPearson(invented, kRepeats, 0.95).low, share) << deviation << " " << invented;
  }
}

TEST(ChangePoints, SmallChangesAreNotReported) {
  const std::vector<double> values = Series(9, {{40, 100}, {40, 100.5}}, 0.0005);
  EXPECT_TRUE(FindChangePoints(values, {}).empty());
  EXPECT_EQ(FindChangePoints(values, {.least_change = 0.002}).size(), 1);
}

TEST(ChangePoints, OneOutlierIsNoChange) {
  std::vector<double> values = Series(2, {{40, 100}}, 0.003);
  values[20] = 130;
  EXPECT_TRUE(FindChangePoints(values, {}).empty());
}

TEST(ChangePoints, AShortDipInALongSeriesIsSeen) {
  const auto points = FindChangePoints(Series(4, {{200, 100}, {12, 104}, {200, 100}}, 0.005), {});
  ASSERT_EQ(points.size(), 2);
  EXPECT_EQ(points[0].index, 200);
  EXPECT_EQ(points[1].index, 212);
}

TEST(ChangePoints, ShortAndConstantSeries) {
  EXPECT_TRUE(FindChangePoints({}, {}).empty());
  EXPECT_TRUE(FindChangePoints({1, 2, 3}, {}).empty());
  EXPECT_TRUE(FindChangePoints(std::vector<double>(60, 7.0), {}).empty());
}

TEST(PairedP, NeedsThreePairsThatAgree) {
  EXPECT_EQ(PairedP({0.12, 0.12}), 1);
  EXPECT_EQ(PairedP({0, 0, 0}), 1);
  EXPECT_LT(PairedP({0.119, 0.121, 0.118, 0.122, 0.120}), 1e-4);
  EXPECT_GT(PairedP({0.12, -0.1, 0.3, -0.2, 0.1}), 0.1);
  // t = sqrt(10) with four degrees of freedom.
  EXPECT_NEAR(PairedP({0, 0.02, 0.02, 0.02, 0.04}), 0.0341, 1e-4);
}

TEST(ChangePoints, SameAnswerEveryTime) {
  const std::vector<double> values = Series(8, {{30, 100}, {30, 102}, {30, 99}}, 0.006);
  const auto first = FindChangePoints(values, {});
  const auto second = FindChangePoints(values, {});
  ASSERT_EQ(first.size(), second.size());
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].index, second[i].index);
}

TEST(Welch, KnownValue) {
  // Means 3 and 6, variances 2.5 and 2.5, n 5 and 5: t = 3, 8 degrees of freedom.
  EXPECT_NEAR(WelchP({1, 2, 3, 4, 5}, {4, 5, 6, 7, 8}), 0.01707, 1e-5);
  EXPECT_DOUBLE_EQ(WelchP({1, 1}, {1, 1}), 1);
  EXPECT_DOUBLE_EQ(WelchP({1, 1}, {2, 2}), 0);
}

}  // namespace
}  // namespace tune
