// SPDX-License-Identifier: Apache-2.0
#include "tuner/statistics/effects.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tune {
namespace {

// A full factorial of three factors, `repeats` times; response = f(levels) + noise.
template <typename Function>
Observations Factorial(const std::vector<size_t>& counts, int repeats, double noise, Function f) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(0, noise);
  Observations observations{.level_counts = counts, .levels = {{}, {}, {}}};
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (size_t a = 0; a < counts[0]; ++a) {
      for (size_t b = 0; b < counts[1]; ++b) {
        for (size_t c = 0; c < counts[2]; ++c) {
          observations.levels[0].push_back(a);
          observations.levels[1].push_back(b);
          observations.levels[2].push_back(c);
          observations.response.push_back(f(a, b, c) + (noise > 0 ? normal(random) : 0));
        }
      }
    }
  }
  return observations;
}

TEST(Effects, SharesOfABalancedDesignAreTheSumsOfSquares) {
  // Variances 1 (levels -1, 1 of the first factor) and 4: a fifth and four fifths.
  const Observations o = Factorial({2, 2, 3}, 200, 0, [](size_t a, size_t b, size_t) {
    return (a == 0 ? -1.0 : 1.0) + (b == 0 ? -2.0 : 2.0);
  });
  EXPECT_NEAR(MainEffect(o, 0), 0.2, 1e-3);
  EXPECT_NEAR(MainEffect(o, 1), 0.8, 1e-3);
  EXPECT_NEAR(MainEffect(o, 2), 0, 1e-3);
  EXPECT_NEAR(AdditiveShare(o), 1, 1e-9);
  EXPECT_NEAR(Interaction(o, 0, 1), 0, 1e-3);
}

TEST(Effects, AnInteractionIsFoundWhereTheMainEffectsAreNothing) {
  const Observations o =
      Factorial({2, 2, 3}, 50, 0.1, [](size_t a, size_t b, size_t) { return a == b ? -1.0 : 1.0; });
  EXPECT_LT(MainEffect(o, 0), 0.02);
  EXPECT_LT(MainEffect(o, 1), 0.02);
  EXPECT_GT(Interaction(o, 0, 1), 0.95);
  EXPECT_LT(Interaction(o, 0, 2), 0.02);
}

TEST(Effects, ManyLevelsOfNoiseExplainNothing) {
  // Unadjusted, 30 levels of 60 observations explain half of pure noise.
  const Observations o = Factorial({30, 2, 1}, 1, 1, [](size_t, size_t, size_t) { return 0.0; });
  EXPECT_LT(MainEffect(o, 0), 0.3);
}

TEST(Effects, AnUnbalancedDesignIsFittedJointly) {
  // The second factor follows the first in most rows; only the first has an effect.
  Observations o{.level_counts = {2, 2}, .levels = {{}, {}}};
  for (int i = 0; i < 100; ++i) {
    const size_t a = i % 2;
    const size_t b = i % 10 == 0 ? 1 - a : a;
    o.levels[0].push_back(a);
    o.levels[1].push_back(b);
    o.response.push_back(a == 0 ? 1.0 : 2.0);
  }
  EXPECT_NEAR(AdditiveShare(o), 1, 1e-6);
  EXPECT_NEAR(MainEffect(o, 0), 1, 1e-9);
  EXPECT_GT(MainEffect(o, 1), 0.5);  // by itself it looks as if it mattered: shares overlap
  EXPECT_NEAR(Interaction(o, 0, 1), 0, 1e-6);
}

TEST(Effects, AllFactorsExplainNoLessThanOneOfThem) {
  // Twelve observations are too few to fit eleven values of a second factor as well.
  Observations o{.level_counts = {2, 11}, .levels = {{}, {}}, .response = {}};
  for (size_t i = 0; i < 12; ++i) {
    o.levels[0].push_back(i % 2);
    o.levels[1].push_back(i % 11);
    o.response.push_back(static_cast<double>(i % 2) + 0.1 * static_cast<double>(i % 3));
  }
  EXPECT_GT(MainEffect(o, 0), 0.9);
  EXPECT_GE(AdditiveShare(o), MainEffect(o, 0));
}

TEST(Effects, EffectsAreZeroIfTheResponseIsConstant) {
  Observations o{.level_counts = {2}, .levels = {{0, 1, 0, 1}}, .response = {1, 1, 1, 1}};
  EXPECT_EQ(MainEffect(o, 0), 0);
  EXPECT_EQ(AdditiveShare(o), 0);
  EXPECT_EQ(MainEffect({.level_counts = {2}, .levels = {{0}}, .response = {1}}, 0), 0);
}

}  // namespace
}  // namespace tune
