// SPDX-License-Identifier: Apache-2.0
#include "tuner/strategies/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace tune {
namespace {

using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::StartsWith;

Space LineSpace(int64_t size) {
  SpaceParam param = {"X", {}};
  for (int64_t i = 0; i < size; ++i) param.values.push_back(i);
  return Space::Build({.params = {param}}).value();
}

std::vector<uint64_t> AskAll(Strategy& strategy) {
  std::vector<uint64_t> asked;
  while (std::optional<uint64_t> index = strategy.Ask()) {
    asked.push_back(*index);
    if (asked.size() % 2 == 0) strategy.Tell({.index = *index, .latency_ns = 1});
  }
  return asked;
}

TEST(MakeStrategy, NamesTheStrategiesThereAre) {
  const Space space = LineSpace(3);
  EXPECT_THAT(StrategyNames(), IsSupersetOf({"auto", "exhaustive", "random", "surrogate"}));
  EXPECT_THAT(std::string(MakeStrategy("magic", space).status().message()),
              StartsWith("unknown strategy 'magic'; there are auto, exhaustive, random, "));
  EXPECT_EQ(std::string(MakeStrategy("random", space, {.first = 3}).status().message()),
            "config 3 of a space of 3");
}

TEST(Exhaustive, StartsWithTheGivenConfigThenGoesInOrder) {
  const Space space = LineSpace(5);
  auto strategy = MakeStrategy("exhaustive", space, {.first = 3}).value();
  EXPECT_THAT(AskAll(*strategy), ElementsAre(3, 0, 1, 2, 4));
  EXPECT_EQ(strategy->Ask(), std::nullopt);
}

// Winners from elsewhere come after the default, in their order, and nothing comes twice.
TEST(Strategies, TryWinnersOfOtherProblemsNext) {
  const Space space = LineSpace(40);
  for (const std::string& name : StrategyNames()) {
    if (!UsesPrior(name)) continue;
    auto strategy = MakeStrategy(name, space, {.first = 20, .starts = {7, 20, 31, 7, 2}}).value();
    strategy->Tell({.index = 31, .latency_ns = 5});
    const std::vector<uint64_t> asked = AskAll(*strategy);
    EXPECT_THAT(std::vector(asked.begin(), asked.begin() + 3), ElementsAre(20, 7, 2)) << name;
    EXPECT_EQ(std::set(asked.begin(), asked.end()).size(), 39u) << name;
    EXPECT_EQ(asked.size(), 39u) << name;
  }
  EXPECT_EQ(std::string(MakeStrategy("auto", space, {.starts = {40}}).status().message()),
            "config 40 of a space of 40");
}

// Every strategy, every size: each config once, but for those known before; the first one first.
TEST(Strategies, AskForEachConfigOnce) {
  for (const std::string& name : StrategyNames()) {
    for (int64_t size : {1, 2, 3, 4, 5, 7, 16, 17, 63, 64, 65}) {
      const Space space = LineSpace(size);
      for (uint64_t seed : {0, 1}) {
        const uint64_t first = static_cast<uint64_t>(size) / 2;
        auto strategy = MakeStrategy(name, space, {.seed = seed, .first = first}).value();
        std::vector<uint64_t> asked = AskAll(*strategy);
        EXPECT_EQ(asked.front(), first);
        std::sort(asked.begin(), asked.end());
        std::vector<uint64_t> all(static_cast<size_t>(size));
        std::iota(all.begin(), all.end(), 0);
        EXPECT_EQ(asked, all) << name << " " << size;

        strategy = MakeStrategy(name, space, {.seed = seed, .first = first}).value();
        std::set<uint64_t> known = {first, 0, static_cast<uint64_t>(size - 1)};
        for (uint64_t index : known) {
          strategy->Tell({.index = index, .outcome = Outcome::kWrongResult});
        }
        asked = AskAll(*strategy);
        EXPECT_EQ(asked.size() + known.size(), static_cast<size_t>(size)) << name << " " << size;
        for (uint64_t index : asked) EXPECT_EQ(known.count(index), 0) << name << " " << size;
      }
    }
  }
}

TEST(Random, OrderDependsOnTheSeedOnly) {
  const Space space = LineSpace(1000);
  auto order = [&](uint64_t seed) {
    return AskAll(*MakeStrategy("random", space, {.seed = seed}).value());
  };
  EXPECT_EQ(order(7), order(7));
  EXPECT_NE(order(7), order(8));
}

// The k-th config asked for is uniform over the space: chi-square over seeds, 15 degrees of
// freedom, 99.99 % below 43.
TEST(Random, EveryPositionIsUniform) {
  const Space space = LineSpace(16);
  constexpr int kSeeds = 4000;
  for (size_t position : {0, 1, 7, 15}) {
    std::vector<int> counts(16, 0);
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      auto strategy = MakeStrategy("random", space, {.seed = seed}).value();
      ++counts[AskAll(*strategy)[position]];
    }
    double chi_square = 0;
    for (int count : counts) {
      const double expected = kSeeds / 16.0;
      chi_square += (count - expected) * (count - expected) / expected;
    }
    EXPECT_LT(chi_square, 43) << position;
  }
}

}  // namespace
}  // namespace tune
