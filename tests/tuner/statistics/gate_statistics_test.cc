// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "tuner/statistics/distributions.h"
#include "tuner/statistics/median.h"
#include "tuner/statistics/series.h"
#include "tuner/statistics/signed_rank.h"

namespace tune {
namespace {

// By trying every sign.
double BruteForceP(const std::vector<double>& differences) {
  std::vector<double> sizes;
  double observed = 0;
  for (const double difference : differences) {
    if (difference != 0) sizes.push_back(difference);
  }
  std::vector<double> ranks;
  for (const double size : sizes) {
    double below = 0;
    double equal = 0;
    for (const double other : sizes) {
      below += std::abs(other) < std::abs(size) ? 1 : 0;
      equal += std::abs(other) == std::abs(size) ? 1 : 0;
    }
    ranks.push_back(below + (equal + 1) / 2);
    if (size > 0) observed += ranks.back();
  }
  const uint32_t all = 1u << ranks.size();
  uint32_t at_least = 0;
  for (uint32_t signs = 0; signs < all; ++signs) {
    double sum = 0;
    for (size_t i = 0; i < ranks.size(); ++i) sum += (signs >> i & 1) != 0 ? ranks[i] : 0;
    at_least += sum >= observed ? 1 : 0;
  }
  return static_cast<double>(at_least) / all;
}

TEST(SignedRank, AgreesWithBruteForceUpTo12) {
  std::mt19937 random(20261121);
  std::normal_distribution<double> normal(0.2);
  for (int count = 0; count <= 12; ++count) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::vector<double> differences;
      for (int i = 0; i < count; ++i) differences.push_back(normal(random));
      EXPECT_NEAR(SignedRankP(differences), BruteForceP(differences), 1e-12) << count;
    }
  }
}

TEST(SignedRank, AgreesWithBruteForceWithTiesAndZeros) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> few(-3, 4);
  for (int count = 1; count <= 12; ++count) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::vector<double> differences;
      for (int i = 0; i < count; ++i) differences.push_back(few(random));
      EXPECT_NEAR(SignedRankP(differences), BruteForceP(differences), 1e-12) << count;
    }
  }
}

TEST(SignedRank, AllPositiveGivesTheLeastP) {
  for (int count : {1, 5, 15, 24, 32, 40}) {
    std::vector<double> differences;
    for (int i = 0; i < count; ++i) differences.push_back(1 + i);
    EXPECT_NEAR(SignedRankP(differences) * std::pow(2.0, count), 1, 1e-9) << count;
    for (double& difference : differences) difference = -difference;
    EXPECT_DOUBLE_EQ(SignedRankP(differences), 1) << count;
  }
}

TEST(SignedRank, PIsOneWithoutDifferences) {
  EXPECT_DOUBLE_EQ(SignedRankP({}), 1);
  EXPECT_DOUBLE_EQ(SignedRankP({0, 0, 0}), 1);
}

// Table A of Wilcoxon: W+ = 60 of 15 ranks has one-sided p 0.5, W+ >= 95 is 0.0206.
TEST(SignedRank, AgreesWithTheTable) {
  std::vector<double> differences;
  for (int i = 1; i <= 15; ++i) differences.push_back(i);
  differences[10] = -11;  // W- = 11 + 14 = 25, W+ = 95
  differences[13] = -14;
  EXPECT_NEAR(SignedRankP(differences), 0.0240, 5e-4);
}

// benchstat's least p: the two-sided rank-sum test of n against n cannot go below 2 / C(2n, n).
TEST(LeastP, OfFourAndSix) {
  const auto least = [](int n) {
    double ways = 1;
    for (int i = 1; i <= n; ++i) ways *= static_cast<double>(n + i) / i;
    return 2 / ways;
  };
  EXPECT_NEAR(least(4), 0.02857, 1e-5);
  EXPECT_NEAR(least(6), 0.002165, 1e-6);
  // Ours, one-sided and paired: six rounds would do for 0.05, not for 0.01.
  EXPECT_NEAR(SignedRankP({1, 2, 3, 4}), 1.0 / 16, 1e-12);
  EXPECT_NEAR(SignedRankP({1, 2, 3, 4, 5, 6}), 1.0 / 64, 1e-12);
}

TEST(Student, QuantilesOfTheTable) {
  EXPECT_NEAR(StudentQuantile(0.975, 1), 12.7062, 1e-4);
  EXPECT_NEAR(StudentQuantile(0.975, 4), 2.77645, 1e-5);
  EXPECT_NEAR(StudentQuantile(0.975, 14), 2.14479, 1e-5);
  EXPECT_NEAR(StudentQuantile(0.975, 23), 2.06866, 1e-5);
  EXPECT_NEAR(StudentQuantile(0.9995, 10), 4.58689, 1e-4);
  EXPECT_NEAR(StudentQuantile(0.025, 4), -2.77645, 1e-5);
  EXPECT_NEAR(StudentCdf(0, 7), 0.5, 1e-12);
}

TEST(ClopperPearson, KnownBounds) {
  // The rule of three: nothing in 299 is at most 1 % with 95 % confidence.
  EXPECT_NEAR(ClopperPearson(0, 299, 0.95).high, 0.00997, 1e-5);
  EXPECT_DOUBLE_EQ(ClopperPearson(0, 299, 0.95).low, 0);
  // 95 % power at 95 % confidence: (misses, trials) = (0, 59), (1, 93), (2, 124), (3, 153).
  for (const auto& [misses, trials] : {std::pair(0, 59), {1, 93}, {2, 124}, {3, 153}}) {
    EXPECT_LE(ClopperPearson(misses, trials, 0.95).high, 0.05) << misses;
    EXPECT_GT(ClopperPearson(misses, trials - 1, 0.95).high, 0.05) << misses;
  }
  EXPECT_DOUBLE_EQ(ClopperPearson(10, 10, 0.95).high, 1);
  EXPECT_NEAR(ClopperPearson(10, 10, 0.95).low, std::pow(0.05, 0.1), 1e-9);
}

TEST(MeanInterval, ReachesAsFarAsStudentSays) {
  // The values 1 to 5 have a deviation of sqrt(2.5); 2.77645 is from the table.
  const MeanInterval interval = EstimateMean({1, 2, 3, 4, 5});
  EXPECT_NEAR(interval.mean, 3, 1e-12);
  EXPECT_NEAR(interval.high - 3, 2.77645 * std::sqrt(2.5 / 5), 1e-4);
  EXPECT_NEAR(3 - interval.low, interval.high - 3, 1e-12);
}

TEST(MeanInterval, CoversNineteenInTwenty) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal(5, 2);
  for (int count : {5, 15}) {
    int covered = 0;
    constexpr int kRepeats = 4000;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      std::vector<double> values;
      for (int i = 0; i < count; ++i) values.push_back(normal(random));
      const MeanInterval interval = EstimateMean(values);
      covered += interval.low <= 5 && 5 <= interval.high ? 1 : 0;
    }
    EXPECT_GT(ClopperPearson(covered, kRepeats, 0.999).high, 0.95) << count;
    EXPECT_LT(ClopperPearson(covered, kRepeats, 0.999).low, 0.95) << count;
  }
}

// Conover's ranks for 95 %: of 20 values the 6th and 15th.
TEST(MedianInterval, RanksOfTheTable) {
  std::vector<double> values;
  for (int i = 1; i <= 20; ++i) values.push_back(i);
  const MedianInterval interval = EstimateMedian(values);
  EXPECT_DOUBLE_EQ(interval.median, 10.5);
  EXPECT_DOUBLE_EQ(interval.low, 6);
  EXPECT_DOUBLE_EQ(interval.high, 15);
}

TEST(Series, Autocorrelation) {
  EXPECT_NEAR(Lag1Autocorrelation({1, -1, 1, -1, 1, -1, 1, -1}), -0.875, 1e-12);
  EXPECT_GT(Lag1Autocorrelation({1, 2, 3, 4, 5, 6, 7, 8}), 0.5);
  EXPECT_DOUBLE_EQ(Lag1Autocorrelation({2, 2, 2, 2}), 0);
  EXPECT_DOUBLE_EQ(Lag1Autocorrelation({1, 2}), 0);
}

TEST(Series, OnlyTwoGroupsAreCalledBimodal) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  int seen = 0;
  int invented = 0;
  for (int repeat = 0; repeat < 500; ++repeat) {
    std::vector<double> one;
    std::vector<double> two;
    for (int i = 0; i < 20; ++i) {
      one.push_back(0.005 * normal(random));
      two.push_back(0.0035 * normal(random) + (i % 5 == 0 ? 0.05 : 0));
    }
    seen += IsBimodal(two, 2e-4) ? 1 : 0;
    invented += IsBimodal(one, 2e-4) ? 1 : 0;
  }
  EXPECT_GT(seen, 490);
  EXPECT_LT(invented, 5);
  EXPECT_FALSE(IsBimodal({1, 1, 1, 2, 2, 2}, 1e-4)) << "too few values to say";
  // Equal but for the clock's own grain.
  EXPECT_FALSE(IsBimodal({1, 1, 1, 1, 1.0001, 1.0001, 1.0001, 1.0001}, 2e-4));
}

}  // namespace
}  // namespace tune
