// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tuner/statistics/median.h"
#include "tuner/statistics/stopping_rule.h"

namespace tune {
namespace {

std::vector<double> OneTo(int count) {
  std::vector<double> samples;
  for (int i = count; i >= 1; --i) samples.push_back(i);
  return samples;
}

TEST(EstimateMedian, GivesRanksInNumbers) {
  const struct {
    int count;
    double median, low, high;
  } kCases[] = {
      {1, 1, 1, 1},       {2, 1.5, 1, 2},      {5, 3, 1, 5},
      {6, 3.5, 1, 6},     {9, 5, 2, 8},        {20, 10.5, 6, 15},
      {50, 25.5, 18, 33}, {100, 50.5, 40, 61}, {2000, 1000.5, 956, 1045},
  };
  for (const auto& c : kCases) {
    const MedianInterval interval = EstimateMedian(OneTo(c.count));
    EXPECT_EQ(interval.median, c.median) << c.count;
    EXPECT_EQ(interval.low, c.low) << c.count;
    EXPECT_EQ(interval.high, c.high) << c.count;
  }
  EXPECT_DOUBLE_EQ(EstimateMedian(OneTo(20)).precision(), 4.5 / 10.5);
}

// The interval of ranks low..high covers the median unless fewer than `low` samples lie on one
// side: twice a binomial tail.
TEST(EstimateMedian, CoversTheMedianInNinetyFivePercentForEveryCount) {
  for (int count = 6; count <= 2000; ++count) {
    const double low = EstimateMedian(OneTo(count)).low;
    double tail = 0;
    for (int k = 0; k < low; ++k) {
      tail += std::exp(std::lgamma(count + 1) - std::lgamma(k + 1) - std::lgamma(count - k + 1) -
                       count * std::log(2.0));
    }
    ASSERT_GE(1 - 2 * tail, 0.95) << count;
    ASSERT_LE(1 - 2 * tail, 0.993) << count;
  }
}

TEST(Summarise, DescribesSamples) {
  const Measurement measurement = Summarise({30, 10, 20, 100, 40});
  EXPECT_EQ(measurement.latency_ns_median, 30);
  EXPECT_EQ(measurement.latency_ns_min, 10);
  EXPECT_EQ(measurement.latency_ns_mean, 40);
  EXPECT_EQ(measurement.latency_ns_low, 10);
  EXPECT_EQ(measurement.latency_ns_high, 100);
  EXPECT_EQ(measurement.samples_ns, (std::vector<double>{30, 10, 20, 100, 40}));
  EXPECT_TRUE(Summarise({}).samples_ns.empty());
}

// Adds `sample` until the rule stops, and says after how many.
std::pair<StopReason, size_t> RunConstant(const SamplePolicy& policy, double sample_ns) {
  StoppingRule rule(policy);
  while (rule.Decide() == StopReason::kContinue) rule.Add(sample_ns);
  return {rule.Decide(), rule.samples_ns().size()};
}

using Stop = std::pair<StopReason, size_t>;

TEST(StoppingRule, StopsAtTheMinimumWhenSamplesAgree) {
  EXPECT_EQ(RunConstant({.samples_min = 20}, 1000), Stop(StopReason::kPrecise, 20));
  EXPECT_EQ(RunConstant({.samples_min = 5}, 1000), Stop(StopReason::kPrecise, 5));
}

TEST(StoppingRule, SpendsAtMostItsSecondsButTakesThreeSamples) {
  EXPECT_EQ(RunConstant({.seconds_max = 0.25}, 0.1e9), Stop(StopReason::kBudget, 3));
  EXPECT_EQ(RunConstant({.seconds_max = 0.25}, 5e9), Stop(StopReason::kBudget, 3));
  EXPECT_EQ(RunConstant({.seconds_max = 0.25}, 0.02e9), Stop(StopReason::kBudget, 13));
}

TEST(StoppingRule, GivesUpOnTheHopelessFromTheThirdSampleOn) {
  const SamplePolicy policy = {.rival_latency_ns = 1000, .hopeless_ratio = 2};
  EXPECT_EQ(RunConstant(policy, 2001), Stop(StopReason::kHopeless, 3));
  EXPECT_EQ(RunConstant(policy, 2000), Stop(StopReason::kPrecise, 20));
  // A single fast sample is hope.
  StoppingRule rule(policy);
  for (double sample : {9000.0, 9000.0, 1500.0, 9000.0, 9000.0}) rule.Add(sample);
  EXPECT_EQ(rule.Decide(), StopReason::kContinue);
}

TEST(StoppingRule, TakesMoreSamplesTheNoisierTheyAre) {
  size_t last = 0;
  for (double noise : {0.001, 0.005, 0.02}) {
    std::mt19937 random(1);
    std::normal_distribution<double> normal(1000, 1000 * noise);
    StoppingRule rule({.samples_min = 20, .samples_max = 2000, .precision = 0.0025});
    while (rule.Decide() == StopReason::kContinue) rule.Add(normal(random));
    EXPECT_EQ(rule.Decide(), StopReason::kPrecise) << noise;
    EXPECT_GE(rule.samples_ns().size(), std::max<size_t>(last, 20)) << noise;
    EXPECT_LE(EstimateMedian(rule.samples_ns()).precision(), 0.0025) << noise;
    last = rule.samples_ns().size();
  }
  EXPECT_GT(last, 60);
}

TEST(StoppingRule, StopsAtItsMostSamples) {
  StoppingRule rule({.samples_min = 20, .samples_max = 50, .precision = 0});
  while (rule.Decide() == StopReason::kContinue) {
    rule.Add(1000 + static_cast<double>(rule.samples_ns().size() % 7));
  }
  EXPECT_EQ(rule.Decide(), StopReason::kBudget);
  EXPECT_EQ(rule.samples_ns().size(), 50);
}

}  // namespace
}  // namespace tune
