// SPDX-License-Identifier: Apache-2.0
// The contract of every strategy, and evidence that those that learn do learn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>

#include "tuner/expression/expression.h"
#include "tuner/strategies/source_process.h"
#include "tuner/strategies/strategy.h"

namespace tune {
namespace {

using ::testing::Contains;

std::vector<Value> Powers(int count) {
  std::vector<Value> values;
  for (int i = 0; i < count; ++i) values.emplace_back(int64_t{1} << i);
  return values;
}

SpaceConstraint Constraint(const std::string& text) {
  return {Expression::Parse(text).value(), text};
}

// 1,920 configs of a made-up kernel: blocks that may not grow beyond 256 threads.
Space KernelSpace() {
  SpaceDefinition definition;
  definition.params = {
      {"BLOCK_X", Powers(7)}, {"BLOCK_Y", Powers(6)},
      {"TILE_X", Powers(4)},  {"TILE_Y", Powers(4)},
      {"PAD", {false, true}}, {"LAYOUT", {std::string("row"), std::string("column")}}};
  definition.constraints = {Constraint("BLOCK_X * BLOCK_Y <= 256"),
                            Constraint("BLOCK_X * BLOCK_Y >= 8")};
  return Space::Build(definition).value();
}

// Fastest with 64 threads of 8 by 8 that do 4 by 2, padded, in rows; large tiles of large blocks do
// not compile. With interactions, and rough as latencies are.
Observation Measure(const Space& space, uint64_t index) {
  const std::vector<uint16_t> d = space.DigitsAt(index);
  if (d[0] + d[1] + d[2] + d[3] > 11) {
    return {.index = index, .outcome = Outcome::kCompileFailed};
  }
  const auto square = [](double x) { return x * x; };
  double cost = 1 + 0.1 * square(d[0] + d[1] - 6) + 0.05 * square(d[0] - 3) +
                0.2 * std::abs(d[2] - 2) + 0.15 * std::abs(d[3] - 1);
  if (d[4] == 0) cost += d[0] >= 3 ? 0.4 : 0.05;
  if (d[5] == 1) cost *= 1.3;
  cost *= 1 + 0.02 * static_cast<double>((index * 2654435761U) % 97) / 97;
  return {.index = index, .latency_ns = 1e5 * cost};
}

double OptimumOf(const Space& space) {
  double best = INFINITY;
  for (uint64_t index = 0; index < space.size(); ++index) {
    const Observation observation = Measure(space, index);
    if (observation.outcome == Outcome::kOk) best = std::min(best, observation.latency_ns);
  }
  return best;
}

struct Played {
  std::vector<uint64_t> asked;
  double best_ns = INFINITY;
};

// Asks for up to `trials` configs, tells the oldest when `options.in_flight` are out.
Played Play(Strategy& strategy, const Space& space, uint64_t trials, size_t in_flight,
            const std::function<Observation(const Space&, uint64_t)>& measure = Measure) {
  Played played;
  std::deque<uint64_t> pending;
  while (true) {
    while (pending.size() < in_flight && played.asked.size() < trials) {
      const std::optional<uint64_t> index = strategy.Ask();
      if (!index.has_value()) break;
      played.asked.push_back(*index);
      pending.push_back(*index);
    }
    if (pending.empty()) return played;
    const Observation observation = measure(space, pending.front());
    pending.pop_front();
    strategy.Tell(observation);
    if (observation.outcome == Outcome::kOk) {
      played.best_ns = std::min(played.best_ns, observation.latency_ns);
    }
  }
}

std::unique_ptr<Strategy> Make(const std::string& name, const Space& space,
                               StrategyOptions options = {}) {
  return MakeStrategy(name, space, std::move(options)).value();
}

class EachStrategy : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Strategies, EachStrategy, ::testing::ValuesIn(StrategyNames()),
                         [](const auto& info) { return info.param; });

TEST_P(EachStrategy, NeverAsksTwiceWithManyInFlight) {
  const Space space = KernelSpace();
  for (const size_t in_flight : {1, 32}) {
    auto strategy = Make(GetParam(), space, {.seed = 3, .first = 17, .in_flight = 32});
    const Played played = Play(*strategy, space, 120, in_flight);
    EXPECT_EQ(played.asked.size(), 120);
    EXPECT_EQ(played.asked.front(), 17);
    EXPECT_EQ(std::set<uint64_t>(played.asked.begin(), played.asked.end()).size(), 120);
  }
}

TEST_P(EachStrategy, TheSeedDecides) {
  const Space space = KernelSpace();
  const auto play = [&](uint64_t seed) {
    auto strategy = Make(GetParam(), space, {.seed = seed});
    return Play(*strategy, space, 60, 8).asked;
  };
  EXPECT_EQ(play(5), play(5));
  if (GetParam() != "exhaustive") {
    EXPECT_NE(play(5), play(6));
  }
}

TEST_P(EachStrategy, CoversASmallSpaceThenEnds) {
  SpaceDefinition definition;
  definition.params = {{"X", Powers(5)}, {"Y", Powers(5)}};
  definition.constraints = {Constraint("X * Y <= 32")};
  const Space space = Space::Build(definition).value();
  for (const size_t in_flight : {1, 7, 32}) {
    auto strategy = Make(GetParam(), space, {.in_flight = 32});
    const auto measure = [](const Space&, uint64_t index) {
      return Observation{.index = index,
                         .outcome = index % 3 == 0 ? Outcome::kFaulted : Outcome::kOk,
                         .latency_ns = 10.0 + static_cast<double>(index % 5)};
    };
    const Played played = Play(*strategy, space, 1000, in_flight, measure);
    EXPECT_EQ(played.asked.size(), space.size());
    EXPECT_EQ(std::set<uint64_t>(played.asked.begin(), played.asked.end()).size(), space.size());
    EXPECT_EQ(strategy->Ask(), std::nullopt);
  }
}

TEST_P(EachStrategy, SearchesASpaceOfOneConfig) {
  SpaceDefinition definition;
  definition.params = {{"X", {int64_t{4}}}};
  const Space space = Space::Build(definition).value();
  auto strategy = Make(GetParam(), space);
  EXPECT_EQ(strategy->Ask(), 0);
  strategy->Tell({.index = 0, .outcome = Outcome::kTimedOut});
  EXPECT_EQ(strategy->Ask(), std::nullopt);
}

TEST_P(EachStrategy, GoesOnWhereEverythingFails) {
  const Space space = KernelSpace();
  auto strategy = Make(GetParam(), space);
  const auto measure = [](const Space&, uint64_t index) {
    return Observation{.index = index, .outcome = Outcome::kLaunchFailed};
  };
  EXPECT_EQ(Play(*strategy, space, 80, 4, measure).asked.size(), 80);
}

TEST_P(EachStrategy, GoesOnWhereEverythingIsTheSame) {
  const Space space = KernelSpace();
  auto strategy = Make(GetParam(), space);
  const auto measure = [](const Space&, uint64_t index) {
    return Observation{.index = index, .latency_ns = 5};
  };
  EXPECT_EQ(Play(*strategy, space, 80, 4, measure).asked.size(), 80);
}

TEST_P(EachStrategy, NeverAsksForAConfigThatItWasTold) {
  const Space space = KernelSpace();
  auto strategy = Make(GetParam(), space, {.first = 5});
  std::set<uint64_t> told;
  for (uint64_t index = 0; index < 40; ++index) {
    strategy->Tell(Measure(space, index));
    told.insert(index);
  }
  for (uint64_t index : Play(*strategy, space, 40, 2).asked) EXPECT_FALSE(told.contains(index));
}

TEST_P(EachStrategy, SearchesASpaceOfMillions) {
  SpaceDefinition definition;
  for (const char* name : {"A", "B", "C", "D", "E", "F", "G"}) {
    definition.params.push_back({name, Powers(8)});
  }
  const Space space = Space::Build(definition).value();
  ASSERT_EQ(space.size(), 2'097'152);
  auto strategy = Make(GetParam(), space, {.in_flight = 4});
  const auto measure = [](const Space& of, uint64_t index) {
    double cost = 1;
    for (uint16_t digit : of.DigitsAt(index)) cost += std::abs(digit - 4.0);
    return Observation{.index = index, .latency_ns = cost};
  };
  const Played played = Play(*strategy, space, 24, 4, measure);
  EXPECT_EQ(std::set<uint64_t>(played.asked.begin(), played.asked.end()).size(), 24);
}

// 16^10 combinations of which a constraint allows every eighth, and no telling which.
TEST(Strategies, SearchASpaceThatCannotBeCounted) {
  SpaceDefinition definition;
  std::string mixed = "1";
  for (const char* name : {"P0", "P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9"}) {
    SpaceParam param = {name, {}};
    for (int64_t value = 1; value <= 16; ++value) param.values.emplace_back(value);
    definition.params.push_back(param);
    mixed = "(" + mixed + " * 40503 + " + name + " * 7919) % 1000003";
  }
  definition.constraints = {Constraint(mixed + " % 8 == 0")};
  const Space space = Space::Build(definition).value();
  ASSERT_FALSE(space.exact());
  const auto measure = [](const Space& of, uint64_t index) {
    return Observation{.index = index, .latency_ns = 1.0 + of.DigitsAt(index)[3]};
  };
  uint64_t invalid = 0;
  while (space.Contains(invalid)) ++invalid;
  for (const std::string& name : StrategyNames()) {
    // Long enough for populations to be full, walks to have moved, and models to have been fitted.
    auto strategy = Make(name, space, {.in_flight = 4});
    const Played played = Play(*strategy, space, 64, 4, measure);
    EXPECT_EQ(std::set<uint64_t>(played.asked.begin(), played.asked.end()).size(), 64) << name;
    for (uint64_t index : played.asked) EXPECT_TRUE(space.Contains(index)) << name;
    EXPECT_FALSE(MakeStrategy(name, space, {.first = invalid}).ok()) << name;
  }
}

// The median over seeds of what is left above the optimum after 60 trials, against random's.
TEST_P(EachStrategy, BeatsRandomIfItLearns) {
  const std::string name = GetParam();
  if (name == "exhaustive" || name == "random" || name == "latin_hypercube") {
    GTEST_SKIP() << "it does not learn";
  }
  const Space space = KernelSpace();
  const auto median = [&](const std::string& of) {
    std::vector<double> best;
    for (uint64_t seed = 0; seed < 9; ++seed) {
      auto strategy = Make(of, space, {.seed = seed});
      best.push_back(Play(*strategy, space, 60, 1).best_ns);
    }
    std::nth_element(best.begin(), best.begin() + 4, best.end());
    return best[4] / OptimumOf(space) - 1;
  };
  EXPECT_LT(median(name), 0.85 * median("random"));
}

std::vector<PriorObservation> PriorOf(const Space& space, bool inverted) {
  double slowest = 0;
  for (uint64_t index = 0; index < space.size(); ++index) {
    slowest = std::max(slowest, Measure(space, index).latency_ns);
  }
  const double optimum = OptimumOf(space);
  std::vector<PriorObservation> prior;
  for (uint64_t index = 0; index < space.size(); ++index) {
    const Observation observation = Measure(space, index);
    const double ratio = observation.latency_ns / optimum;
    prior.push_back({.config = space.At(index),
                     .outcome = observation.outcome,
                     .relative_latency = inverted ? slowest / observation.latency_ns : ratio});
    if (prior.size() == 400) break;  // part of the space: the rest is guessed
  }
  return prior;
}

double MedianExcess(const Space& space, const std::vector<PriorObservation>& prior, uint64_t trials,
                    const std::function<Observation(const Space&, uint64_t)>& measure = Measure) {
  std::vector<double> best;
  for (uint64_t seed = 0; seed < 15; ++seed) {
    auto strategy = Make("auto", space, {.seed = seed, .prior = prior});
    best.push_back(Play(*strategy, space, trials, 1, measure).best_ns);
  }
  std::nth_element(best.begin(), best.begin() + 7, best.end());
  return best[7] / OptimumOf(space) - 1;
}

TEST_P(EachStrategy, ThatLearnsStartsFromAGoodPrior) {
  const std::string name = GetParam();
  if (name == "exhaustive" || name == "random") GTEST_SKIP() << "it does not learn";
  const Space space = KernelSpace();
  const std::vector<PriorObservation> prior = PriorOf(space, false);
  double best_known = INFINITY;  // the best of what the prior has
  for (uint64_t index = 0; index < 400; ++index) {
    const Observation observation = Measure(space, index);
    if (observation.outcome == Outcome::kOk)
      best_known = std::min(best_known, observation.latency_ns);
  }
  auto strategy = Make(name, space, {.first = 7, .prior = prior});
  const Played played = Play(*strategy, space, 2, 1);
  EXPECT_EQ(played.asked[0], 7);
  EXPECT_EQ(Measure(space, played.asked[1]).latency_ns, best_known);
}

// A prior may hold no information: one config, failures alone, impossible latencies.
TEST_P(EachStrategy, TakesThePoorestPriors) {
  const Space space = KernelSpace();
  std::vector<PriorObservation> failed;
  std::vector<PriorObservation> strange;
  for (uint64_t index = 0; index < 100; ++index) {
    failed.push_back({.config = space.At(7 * index), .outcome = Outcome::kLaunchFailed});
    const double ratios[] = {NAN, INFINITY, 0, -1, 1e300};
    strange.push_back({.config = space.At(7 * index), .relative_latency = ratios[index % 5]});
  }
  const std::vector<PriorObservation> one = {{.config = space.At(5)}};
  for (const std::vector<PriorObservation>& prior : {one, failed, strange}) {
    auto strategy = Make(GetParam(), space, {.seed = 2, .in_flight = 4, .prior = prior});
    const Played played = Play(*strategy, space, 60, 4);
    EXPECT_EQ(std::set<uint64_t>(played.asked.begin(), played.asked.end()).size(), 60);
    EXPECT_LT(played.best_ns, 3 * OptimumOf(space));
  }
}

TEST(Auto, StartsFromAGoodPrior) {
  const Space space = KernelSpace();
  for (const uint64_t trials : {10, 20}) {
    EXPECT_LT(MedianExcess(space, PriorOf(space, false), trials),
              0.7 * MedianExcess(space, {}, trials))
        << trials;
  }
}

// A recording in which the latencies have changed places says nothing of any config.
TEST(Auto, PassesOverAPriorThatDoesNotPredictItself) {
  const Space space = KernelSpace();
  std::vector<PriorObservation> prior = PriorOf(space, false);
  std::erase_if(prior, [](const PriorObservation& of) { return of.outcome != Outcome::kOk; });
  for (size_t i = 0; i < prior.size(); ++i) {
    std::swap(prior[i].relative_latency, prior[i * 7919 % prior.size()].relative_latency);
  }
  auto with = Make("auto", space, {.seed = 3, .prior = prior});
  auto without = Make("auto", space, {.seed = 3});
  EXPECT_EQ(Play(*with, space, 40, 1).asked, Play(*without, space, 40, 1).asked);
}

TEST(Auto, RecoversFromAPriorThatMisleads) {
  const Space space = KernelSpace();
  EXPECT_LT(MedianExcess(space, PriorOf(space, true), 60), 0.05);
}

TEST(Auto, IsNoWorseAfterFiftyWithAPriorThatMisleads) {
  const Space space = KernelSpace();
  EXPECT_LE(MedianExcess(space, PriorOf(space, true), 50), MedianExcess(space, {}, 50) + 0.005);
}

// Its best are of the part that it has, and the best of all are not.
TEST(Auto, IsNoWorseWhereAPriorLacksTheBetterHalfOfTheSpace) {
  const Space space = KernelSpace();
  const auto is_padded = [](const Space& of, uint64_t index) { return of.DigitsAt(index)[4] == 1; };
  const auto measure = [&](const Space& of, uint64_t index) {
    Observation observation = Measure(of, index);
    if (!is_padded(of, index)) observation.latency_ns *= 1.5;
    return observation;
  };
  std::vector<PriorObservation> prior;
  double best = INFINITY;
  for (uint64_t index = 0; index < space.size(); ++index) {
    const Observation observation = measure(space, index);
    if (is_padded(space, index) || observation.outcome != Outcome::kOk) continue;
    prior.push_back({.config = space.At(index), .relative_latency = observation.latency_ns});
    best = std::min(best, observation.latency_ns);
  }
  for (PriorObservation& of : prior) of.relative_latency /= best;
  for (const uint64_t trials : {12, 20}) {
    EXPECT_LE(MedianExcess(space, prior, trials, measure), MedianExcess(space, {}, trials, measure))
        << trials;
  }
}

// Predicts configs that it lacks, with a variance that holds, and knows its own ones with
// certainty.
TEST(SourceProcess, PredictsWhatItLacks) {
  const Space space = KernelSpace();
  const Geometry geometry(space);
  std::vector<std::pair<uint64_t, double>> had;
  std::vector<std::pair<uint64_t, double>> lacked;
  for (uint64_t index = 0; index < space.size(); ++index) {
    const Observation observation = Measure(space, index);
    if (observation.outcome != Outcome::kOk) continue;
    (index % 11 == 0 ? had : lacked).emplace_back(index, std::log(observation.latency_ns));
  }
  ASSERT_LT(had.size(), 180);  // so that it takes all
  const SourceProcess process(space, geometry, had);
  EXPECT_GT(process.explained(), 0.5);

  const auto errors = [&](const std::vector<std::pair<uint64_t, double>>& of) {
    Prediction mean;  // of the squared error, and of the variance that was predicted
    for (const auto& [index, log_latency] : of) {
      const Prediction predicted = process.Predict(space.DigitsAt(index));
      const double error = predicted.mean - log_latency;
      mean.mean += error * error / static_cast<double>(of.size());
      mean.variance += predicted.variance / static_cast<double>(of.size());
    }
    return mean;
  };
  const Prediction lacking = errors(lacked);
  EXPECT_LT(lacking.mean, 0.006);  // a tenth of the variance that there is
  EXPECT_GT(lacking.mean, lacking.variance / 10);
  EXPECT_LT(lacking.mean, lacking.variance * 10);
  EXPECT_LT(errors(had).variance, lacking.variance / 10);
}

// The fastest are next to those that fail: it may not stay away from them, nor fail more often than
// blind search does.
TEST(Auto, FindsTheBestNextToWhatFails) {
  const Space space = KernelSpace();
  const auto measure = [](const Space& of, uint64_t index) {
    const std::vector<uint16_t> d = of.DigitsAt(index);
    const int load = d[0] + d[1] + d[2] + d[3];
    if (load > 9) return Observation{.index = index, .outcome = Outcome::kCompileFailed};
    return Observation{.index = index, .latency_ns = 100.0 - 8 * load + d[4] + d[5]};
  };
  std::vector<int> failed;
  for (const std::string name : {"auto", "random"}) {
    failed.push_back(0);
    for (uint64_t seed = 0; seed < 5; ++seed) {
      auto strategy = Make(name, space, {.seed = seed});
      const Played played = Play(*strategy, space, 60, 1, measure);
      if (name == "auto") {
        EXPECT_EQ(played.best_ns, 28) << seed;
      }
      for (uint64_t index : played.asked) failed.back() += measure(space, index).latency_ns == 0;
    }
  }
  EXPECT_LE(failed[0], failed[1]);
}

// Far apart from the first on: the nearest two of the first eight are farther from each other than
// those of eight drawn at random, in the sum of the differences of their ranks.
TEST(Surrogate, StartsWithConfigsFarApart) {
  const Space space = KernelSpace();
  const auto nearest = [&](const std::string& name, uint64_t seed) {
    auto strategy = Make(name, space, {.seed = seed});
    const std::vector<uint64_t> asked = Play(*strategy, space, 8, 8).asked;
    double least = INFINITY;
    for (size_t a = 0; a < asked.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        const std::vector<uint16_t> x = space.DigitsAt(asked[a]);
        const std::vector<uint16_t> y = space.DigitsAt(asked[b]);
        double sum = 0;
        for (size_t param = 0; param < x.size(); ++param) {
          sum += std::abs(x[param] - y[param]) / static_cast<double>(space.radix(param) - 1);
        }
        least = std::min(least, sum);
      }
    }
    return least;
  };
  for (uint64_t seed = 0; seed < 5; ++seed) {
    EXPECT_GT(nearest("surrogate", seed), 1.5 * nearest("random", seed)) << seed;
  }
}

TEST(Auto, PassesOverAPriorOfOtherConfigs) {
  const Space space = KernelSpace();
  std::vector<PriorObservation> prior = {{.config = {{{"WIDTH", int64_t{3}}}}}};
  auto strategy = Make("auto", space, {.prior = prior});
  EXPECT_EQ(Play(*strategy, space, 30, 4).asked.size(), 30);
}

TEST(Auto, FindsAGoodConfigInNoise) {
  const Space space = KernelSpace();
  uint64_t draw = 0;
  const auto noisy = [&](const Space& of, uint64_t index) {
    Observation observation = Measure(of, index);
    draw = draw * 6364136223846793005 + 1442695040888963407;
    observation.latency_ns *= 1 + 0.1 * (static_cast<double>(draw >> 40) / (1 << 24) - 0.5);
    return observation;
  };
  auto strategy = Make("auto", space, {.seed = 1});
  const Played played = Play(*strategy, space, 80, 1, noisy);
  double best = INFINITY;
  for (uint64_t index : played.asked) {
    const Observation observation = Measure(space, index);
    if (observation.outcome == Outcome::kOk) best = std::min(best, observation.latency_ns);
  }
  EXPECT_LT(best / OptimumOf(space), 1.05);
}

TEST(Auto, SeesLessAndLessChanceOfImprovement) {
  const Space space = KernelSpace();
  auto strategy = Make("auto", space, {.seed = 1});
  Play(*strategy, space, 20, 1);
  ASSERT_TRUE(strategy->Ask().has_value());
  ASSERT_TRUE(strategy->ImprovementChance().has_value());
  const double early = *strategy->ImprovementChance();
  Play(*strategy, space, 150, 1);
  EXPECT_LT(*strategy->ImprovementChance(), early);
  EXPECT_GE(*strategy->ImprovementChance(), 0);
}

TEST(Auto, IsTheDefault) {
  EXPECT_THAT(StrategyNames(), Contains(std::string(kDefaultStrategy)));
  const Space space = KernelSpace();
  const auto play = [&](const std::string& name) {
    auto strategy = Make(name, space, {.seed = 2});
    return Play(*strategy, space, 20, 1).asked;
  };
  EXPECT_EQ(play(""), play("auto"));
}

}  // namespace
}  // namespace tune
