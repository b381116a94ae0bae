// SPDX-License-Identifier: Apache-2.0
#include "tuner/sweep/winner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "absl/time/clock.h"
#include "tuner/statistics/median.h"
#include "tuner/statistics/paired_ratio.h"

namespace tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Config ConfigOf(int64_t x) { return {.entries = {{"X", x}}}; }
int64_t XOf(const Config& config) { return std::get<int64_t>(config.entries[0].second); }

std::vector<int64_t> Xs(const std::vector<Trial>& trials) {
  std::vector<int64_t> xs;
  for (const Trial& trial : trials) xs.push_back(XOf(trial.config));
  return xs;
}

Trial Found(int64_t x, std::vector<double> samples_ns, int64_t registers = 32) {
  Trial trial;
  trial.config = ConfigOf(x);
  trial.measurement = Summarise(std::move(samples_ns));
  trial.resources.registers = registers;
  return trial;
}

// Answers from a function of config and round.
class ScriptedEvaluator : public Evaluator {
 public:
  using Measure = std::function<Trial(int64_t x, int round)>;
  explicit ScriptedEvaluator(Measure measure) : measure_(std::move(measure)) {}

  size_t capacity() const override { return 1; }
  absl::Status Start(const Config&) override { return absl::UnimplementedError("no search"); }
  absl::StatusOr<std::optional<Trial>> Next(absl::Duration) override { return std::nullopt; }
  absl::StatusOr<std::vector<Trial>> Remeasure(const std::vector<Config>& configs) override {
    if (static_cast<int>(rounds_.size()) == rounds_in_time_) {
      return absl::DeadlineExceededError("too late");
    }
    rounds_.emplace_back();
    std::vector<Trial> trials;
    for (const Config& config : configs) {
      rounds_.back().push_back(XOf(config));
      trials.push_back(measure_(XOf(config), static_cast<int>(rounds_.size()) - 1));
    }
    absl::SleepFor(round_takes_);
    return trials;
  }
  void Appraise(Trial& trial) const override {
    if (trial.measurement.latency_ns_median < roof_ns_) trial.outcome = Outcome::kAboveRoof;
  }
  void SetRival(double) override {}
  void ExpectRounds(int rounds, absl::Duration limit) override {
    expected_.push_back(rounds);
    limit_ = limit;
  }

  Measure measure_;
  absl::Duration round_takes_;
  double roof_ns_ = 0;
  std::vector<std::vector<int64_t>> rounds_;  // who was measured, in order
  int rounds_in_time_ = -1;                   // the next ones are too late
  std::vector<int> expected_;
  absl::Duration limit_;
};

std::vector<Trial> Search(int64_t count) {
  std::vector<Trial> trials;
  for (int64_t x = 0; x < count; ++x) trials.push_back(Found(x, {1000 + 10.0 * x}));
  return trials;
}

// A device that gets hotter in a round, as one that its power limits does.
TEST(MeasureFinals, DriftWithinARoundCostsAllConfigsTheSame) {
  ScriptedEvaluator* device = nullptr;
  ScriptedEvaluator evaluator([&device](int64_t x, int) {
    return Found(x, {1000.0 + 10.0 * static_cast<double>(device->rounds_.back().size())});
  });
  device = &evaluator;
  const Finals finals = MeasureFinals(Search(12), ConfigOf(11), {}, evaluator).value();
  EXPECT_THAT(finals.trials, SizeIs(9));
  EXPECT_EQ(finals.rounds % 2, 0);
  for (const Trial& trial : finals.trials) {
    EXPECT_EQ(trial.measurement.latency_ns_median, 1050);
  }
}

TEST(MeasureFinals, MeasuresTheTopEightAndTheDefaultInEveryRound) {
  std::vector<Trial> trials = Search(15);
  trials[2].outcome = Outcome::kWrongResult;
  // In every second round one of them is slow, so four rounds do not settle it.
  ScriptedEvaluator evaluator([](int64_t x, int round) {
    const double slow = round % 2 == 1 && x == 4 ? 20 : 0;
    return Found(x, {1000.0, 1002.0 + slow, 1004.0 + slow + 100 * (round % 2)});
  });
  const Finals finals = MeasureFinals(trials, ConfigOf(12), {}, evaluator).value();
  EXPECT_EQ(finals.rounds, 8);
  EXPECT_THAT(evaluator.expected_, ElementsAre(4, 4));
  EXPECT_THAT(Xs(finals.trials), ElementsAre(0, 1, 3, 4, 5, 6, 7, 8, 12));
  ASSERT_THAT(evaluator.rounds_, SizeIs(8));
  std::set<int64_t> first;
  for (const std::vector<int64_t>& round : evaluator.rounds_) {
    EXPECT_THAT(round, SizeIs(9));
    first.insert(round[0]);
  }
  EXPECT_THAT(first, SizeIs(8)) << "another begins each round";
  const Measurement& measurement = finals.trials[0].measurement;
  EXPECT_THAT(measurement.samples_ns, SizeIs(24));
  EXPECT_EQ(measurement.samples_ns[5], 1104) << "the rounds one after the other";
  EXPECT_EQ(measurement.latency_ns_median, 1002);
  EXPECT_EQ(measurement.latency_ns_min, 1000);
}

// A search's trial may be of other headers, say; its resources then do not describe this
// measurement.
TEST(MeasureFinals, ResourcesOfOtherMachineCodeAreNotTaken) {
  for (const bool same : {true, false}) {
    ScriptedEvaluator evaluator([&](int64_t x, int) {
      Trial trial = Found(x, {1000});
      trial.resources = {.binary_sha256 = "measured"};
      return trial;
    });
    Trial found = Found(1, {1000});
    found.resources = {.registers = 40, .binary_sha256 = same ? "measured" : "before"};
    const Finals finals = MeasureFinals({found}, {}, {}, evaluator).value();
    ASSERT_THAT(finals.trials, SizeIs(1));
    EXPECT_EQ(finals.trials[0].resources.binary_sha256, "measured");
    EXPECT_EQ(finals.trials[0].resources.registers, same ? 40 : 0);
  }
}

TEST(MeasureFinals, EndsOnceAllTiesAreKnownPrecisely) {
  // A tie within 0.02 %, one 1 % slower, and one that is noisy but three times as slow.
  ScriptedEvaluator evaluator([](int64_t x, int round) {
    const double each[] = {1000, 1000.1 + 0.2 * (round % 2), 1010, 3000 + 500.0 * (round % 2)};
    return Found(x, {each[x]});
  });
  const Finals finals = MeasureFinals(Search(4), {}, {}, evaluator).value();
  EXPECT_EQ(finals.rounds, 4);
  EXPECT_THAT(evaluator.expected_, ElementsAre(4)) << "what is not needed is not got ready";
  EXPECT_THAT(NameWinner(finals, {})->ties, SizeIs(0));
}

TEST(MeasureFinals, OneConfigAloneIsSettled) {
  ScriptedEvaluator evaluator([](int64_t x, int) { return Found(x, {1000}); });
  EXPECT_EQ(MeasureFinals(Search(1), {}, {}, evaluator)->rounds, 4);
}

TEST(MeasureFinals, EveryRoundWeighsAlike) {
  // Round 1 has five times the samples of the others, all slow.
  ScriptedEvaluator evaluator([](int64_t x, int round) {
    return round == 1 ? Found(x, std::vector<double>(15, 2000)) : Found(x, {1000, 1000, 1000});
  });
  const Finals finals = MeasureFinals(Search(1), {}, {.rounds_max = 3}, evaluator).value();
  EXPECT_THAT(finals.trials[0].measurement.samples_ns, SizeIs(9));
  EXPECT_EQ(finals.trials[0].measurement.latency_ns_median, 1000);
  EXPECT_EQ(finals.trials[0].measurement.latency_ns_high, 2000) << "of the rounds";
}

TEST(MeasureFinals, KeepsToItsTimeButNotBelowThreeRounds) {
  ScriptedEvaluator evaluator([](int64_t x, int round) {  // never settled
    return Found(x, {1000 + (x == 1 && round % 2 == 1 ? 50.0 : 0.0)});
  });
  evaluator.round_takes_ = absl::Milliseconds(20);
  EXPECT_EQ(MeasureFinals(Search(2), {}, {.time = absl::ZeroDuration()}, evaluator)->rounds, 3);
  const int rounds =
      MeasureFinals(Search(2), {}, {.rounds_max = 1000, .time = absl::Milliseconds(200)}, evaluator)
          ->rounds;
  EXPECT_GE(rounds, 3);
  EXPECT_LE(rounds, 10);
}

TEST(MeasureFinals, ARoundThatIsNotOverWithinTheLimitDoesNotCount) {
  ScriptedEvaluator evaluator([](int64_t x, int) { return Found(x, {1000, 1000, 1000}); });
  evaluator.rounds_in_time_ = 1;
  const ConfirmPolicy policy{.limit = absl::Seconds(5)};
  const Finals finals = MeasureFinals(Search(3), {}, policy, evaluator).value();
  EXPECT_EQ(finals.rounds, 1) << "fewer than the least: there was no time";
  EXPECT_THAT(finals.trials, SizeIs(3));
  EXPECT_LE(evaluator.limit_, absl::Seconds(5));
  EXPECT_GT(evaluator.limit_, absl::Seconds(4));
  evaluator.rounds_in_time_ = 1;  // which are over
  EXPECT_TRUE(absl::IsDeadlineExceeded(MeasureFinals(Search(3), {}, policy, evaluator).status()));
}

TEST(MeasureFinals, SlowFinalistsAreLeftOutWhereALimitHasNoRoomForThem) {
  ScriptedEvaluator evaluator([](int64_t x, int) { return Found(x, {1000, 1000, 1000}); });
  std::vector<Trial> trials = Search(12);
  for (Trial& trial : trials) trial.evaluate_seconds = 1;
  // Three rounds in half of it: five seconds, so that three configs have room.
  const auto finalists = [&](const Config& default_config, absl::Duration limit) {
    return Xs(MeasureFinals(trials, default_config, {.limit = limit}, evaluator)->trials);
  };
  EXPECT_THAT(finalists({}, absl::Seconds(20)), ElementsAre(0, 1, 2));
  EXPECT_THAT(finalists(ConfigOf(11), absl::Seconds(20)), ElementsAre(0, 1, 11));
  EXPECT_THAT(finalists(ConfigOf(11), absl::Seconds(1)), ElementsAre(0, 11));
  EXPECT_THAT(finalists({}, absl::Seconds(1)), ElementsAre(0));
  EXPECT_THAT(finalists({}, absl::InfiniteDuration()), SizeIs(8));
}

TEST(MeasureFinals, AConfigThatFailsInARoundIsNotOk) {
  ScriptedEvaluator evaluator([](int64_t x, int round) {
    Trial trial = Found(x, {1000, 1000, 1000});
    if (x == 1 && round == 2) {
      trial.outcome = Outcome::kFaulted;
      trial.message = "an illegal address";
    }
    return trial;
  });
  const Finals finals = MeasureFinals(Search(3), {}, {}, evaluator).value();
  EXPECT_EQ(finals.trials[0].outcome, Outcome::kOk);
  EXPECT_EQ(finals.trials[1].outcome, Outcome::kFaulted);
  EXPECT_THAT(finals.trials[1].message, HasSubstr("round 3: an illegal address"));
  EXPECT_THAT(evaluator.rounds_[3], SizeIs(2)) << "not tried again";
  EXPECT_THAT(Xs(NameWinner(finals, {})->ties), SizeIs(1));
}

TEST(MeasureFinals, NeedsATrialThatIsOk) {
  ScriptedEvaluator evaluator([](int64_t x, int) { return Found(x, {1000}); });
  Trial bad = Found(1, {1000});
  bad.outcome = Outcome::kFaulted;
  const absl::Status none = absl::FailedPreconditionError("no config was ok");
  EXPECT_EQ(MeasureFinals({bad}, bad.config, {}, evaluator).status(), none);
  // The newest trial of a config is the one that counts.
  EXPECT_EQ(MeasureFinals({Found(1, {1000}), bad}, {}, {}, evaluator).status(), none);
  EXPECT_TRUE(evaluator.rounds_.empty());
}

Finals FinalsOf(const std::map<int64_t, std::vector<double>>& rounds,
                const std::map<int64_t, int64_t>& registers = {}) {
  Finals finals;
  for (const auto& [x, medians_ns] : rounds) {
    finals.rounds = static_cast<int>(medians_ns.size());
    finals.trials.push_back(Found(x, medians_ns, registers.contains(x) ? registers.at(x) : 32));
  }
  return finals;
}

TEST(NameWinner, PairsTheRounds) {
  // The device drifts by 10 % from round to round, and 1 is 1 % slower than 0 throughout.
  const std::vector<double> drift = {1000, 1100, 1010, 1090, 1020, 1080};
  std::vector<double> slower;
  for (size_t r = 0; r < drift.size(); ++r) slower.push_back(drift[r] * (1.01 + 0.0005 * (r % 3)));
  const Finals finals = FinalsOf({{0, drift}, {1, slower}});
  EXPECT_GT(finals.trials[0].measurement.latency_ns_high,
            finals.trials[1].measurement.latency_ns_low)
      << "their intervals overlap";
  const Winner winner = NameWinner(finals, {}).value();
  EXPECT_EQ(XOf(winner.best.config), 0);
  EXPECT_TRUE(winner.ties.empty());
}

TEST(NameWinner, BreaksTiesByResourcesThenText) {
  const std::vector<double> a = {1000, 1002, 998, 1001, 999};
  const std::vector<double> b = {1001, 999, 1003, 1000, 1002};
  const std::vector<double> c = {1101, 1099, 1103, 1100, 1102};
  Finals finals = FinalsOf({{1, a}, {2, b}, {3, b}, {4, b}, {5, c}},
                           {{1, 64}, {2, 32}, {3, 32}, {4, 32}, {5, 16}});
  finals.trials[1].resources.static_shared_bytes = 16;
  for (int order = 0; order < 2; ++order) {
    const Winner winner = NameWinner(finals, {}).value();
    EXPECT_EQ(XOf(winner.best.config), 3);
    EXPECT_THAT(Xs(winner.ties), ElementsAre(4, 2, 1));
    EXPECT_FALSE(winner.default_trial.has_value());
    std::reverse(finals.trials.begin(), finals.trials.end());
  }
}

TEST(NameWinner, TwoRoundsNameNoTies) {
  const Finals finals = FinalsOf({{0, {71, 68}}, {1, {189, 182}}, {2, {72, 74}}});
  const Winner winner = NameWinner(finals, ConfigOf(1)).value();
  EXPECT_EQ(XOf(winner.best.config), 0);
  EXPECT_TRUE(winner.ties.empty());
  const OverDefault over = StandToDefault(winner.best, &*winner.default_trial, 2, false);
  EXPECT_EQ(over.standing, DefaultStanding::kUndecided);
  EXPECT_EQ(over.verdict, "2 rounds are too few to tell; by them the best is 2.67 times as fast");
  EXPECT_EQ(over.speedup_low, 0);
  EXPECT_EQ(over.speedup_high, 0);
}

TEST(NameWinner, AConfigFurtherAwayThanTheIntervalsAreWideIsNoTie) {
  // In the one bad round the default is faster: its ratio may be 1, and it is 39 times as slow.
  const std::vector<double> best = {357, 350, 20000, 360};
  const std::vector<double> slow = {13910, 14000, 13800, 13950};
  const Finals near = FinalsOf({{0, {357, 350, 420, 360}}, {1, {370, 340, 400, 380}}});
  EXPECT_THAT(NameWinner(near, {})->ties, SizeIs(1));
  Finals finals = FinalsOf({{0, best}, {1, slow}});
  finals.trials[0].measurement.latency_ns_low = 350;
  finals.trials[0].measurement.latency_ns_high = 360;
  finals.trials[0].measurement.latency_ns_median = 358;
  const Winner winner = NameWinner(finals, ConfigOf(1)).value();
  EXPECT_TRUE(winner.ties.empty());
  const OverDefault over = StandToDefault(winner.best, &*winner.default_trial, 4, false);
  EXPECT_EQ(over.standing, DefaultStanding::kUndecided);
  EXPECT_THAT(over.verdict, HasSubstr("the rounds vary too much to tell; by their medians the best "
                                      "is 39 times as fast"));
}

TEST(StandToDefault, GivesAVerdictForEachStanding) {
  const Trial best = Found(1, {1000, 1001, 999, 1000});
  const Trial slow = Found(2, {2690, 2691, 2689, 2690});
  const OverDefault faster = StandToDefault(best, &slow, 4, false);
  EXPECT_EQ(faster.standing, DefaultStanding::kFaster);
  EXPECT_EQ(faster.verdict, "the best is 2.69 times as fast");
  EXPECT_GT(faster.speedup_low, 2.6);
  EXPECT_LT(faster.speedup_high, 2.8);
  EXPECT_EQ(StandToDefault(best, &slow, 4, true).standing, DefaultStanding::kTie);
  EXPECT_EQ(StandToDefault(best, &best, 4, false).standing, DefaultStanding::kSame);
  EXPECT_EQ(StandToDefault(best, nullptr, 4, false).standing, DefaultStanding::kUnknown);
  EXPECT_THAT(StandToDefault(best, &slow, 1, false).verdict,
              HasSubstr("1 round is too few to tell; by it the best is"));
  EXPECT_THAT(StandToDefault(best, &slow, 0, false).verdict,
              HasSubstr("it was not measured again"));
}

TEST(NameWinner, ATieThatIsSlowerThanTheDefaultDoesNotWin) {
  const std::vector<double> a = {1000, 1002, 998, 1001, 999};
  const std::vector<double> b = {1001, 1000, 1003, 1000, 1002};
  const Finals finals = FinalsOf({{1, a}, {2, b}}, {{1, 64}, {2, 32}});
  EXPECT_EQ(XOf(NameWinner(finals, {})->best.config), 2);
  const Winner winner = NameWinner(finals, ConfigOf(1)).value();
  EXPECT_EQ(XOf(winner.best.config), 1) << "the default itself, though it has more registers";
  EXPECT_EQ(XOf(winner.default_trial->config), 1);
  EXPECT_THAT(Xs(winner.ties), ElementsAre(2));
}

TEST(NameWinner, AConfigAboveTheRoofDoesNotWin) {
  ScriptedEvaluator evaluator([](int64_t x, int) {
    const double ns = x == 0 ? 10 : 1000.0 + 100 * x;
    return Found(x, {ns, ns, ns});
  });
  evaluator.roof_ns_ = 500;
  const Finals finals = MeasureFinals(Search(3), ConfigOf(0), {}, evaluator).value();
  const Winner winner = NameWinner(finals, ConfigOf(0)).value();
  EXPECT_EQ(XOf(winner.best.config), 1);
  EXPECT_FALSE(winner.default_trial.has_value());
  evaluator.roof_ns_ = 1e9;
  EXPECT_EQ(NameWinner(*MeasureFinals(Search(3), {}, {}, evaluator), {}).status(),
            absl::FailedPreconditionError("no config was ok when it was measured again"));
}

TEST(EstimateRatio, IsStudentsIntervalOnTheLogarithms) {
  // Ratios e^0.01, e^0.02, e^0.03: mean 0.02, standard error 0.01 / sqrt 3, t(2) = 4.3027.
  const RatioInterval interval =
      EstimateRatio({std::exp(0.01), std::exp(0.02), std::exp(0.03)}, {1, 1, 1});
  EXPECT_NEAR(std::log(interval.ratio), 0.02, 1e-12);
  EXPECT_NEAR(std::log(interval.low), 0.02 - 4.3027 * 0.01 / std::sqrt(3.0), 1e-9);
  EXPECT_NEAR(std::log(interval.high), 0.02 + 4.3027 * 0.01 / std::sqrt(3.0), 1e-9);
  EXPECT_TRUE(EstimateRatio({2}, {1}).contains(1)) << "one round tells nothing";
  EXPECT_FALSE(EstimateRatio({2, 2}, {1, 1}).contains(1));
  EXPECT_TRUE(EstimateRatio({3, 3}, {3, 3}).contains(1));
  EXPECT_TRUE(EstimateRatio(std::vector<double>(50, 1), std::vector<double>(50, 1)).contains(1));
}

TEST(EstimateRatio, CoversTheTruthAsOftenAsItSays) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(0, 0.005);
  int covered = 0;
  for (int i = 0; i < 4000; ++i) {
    std::vector<double> a, b;
    for (int r = 0; r < 8; ++r) {
      const double drift = std::exp(10 * noise(random));
      a.push_back(1.03 * drift * std::exp(noise(random)));
      b.push_back(drift * std::exp(noise(random)));
    }
    covered += EstimateRatio(a, b).contains(1.03);
  }
  EXPECT_NEAR(covered / 4000.0, 0.95, 0.01);
}

// A device as measured on real ones: every process times a kernel a little differently, samples
// scatter, and the whole device drifts from round to round.
struct NoisyDevice {
  std::mt19937_64 random;
  double process_noise = 0.004;
  double sample_noise = 0.005;
  double drift = 0.002;
  std::map<int64_t, double> truth_ns;

  double Noise(double size) { return std::exp(std::normal_distribution<double>(0, size)(random)); }
  Trial Measure(int64_t x, int samples) {
    const double center = truth_ns.at(x) * Noise(process_noise);
    std::vector<double> samples_ns;
    for (int i = 0; i < samples; ++i) samples_ns.push_back(center * Noise(sample_noise));
    return Found(x, samples_ns, 32 + (x * 7) % 64);
  }
  Winner Sweep() {
    std::vector<Trial> trials;
    for (const auto& [x, ns] : truth_ns) trials.push_back(Measure(x, 20));
    search_best_ns = 1e18;
    for (const Trial& trial : trials) {
      if (trial.measurement.latency_ns_median > search_best_ns) continue;
      search_best_ns = trial.measurement.latency_ns_median;
      search_best = XOf(trial.config);
    }
    double round_drift = 1;
    int last = -1;
    ScriptedEvaluator evaluator([&](int64_t x, int round) {
      if (round != last) round_drift = Noise(drift);
      last = round;
      Trial trial = Measure(x, 40);
      for (double& ns : trial.measurement.samples_ns) ns *= round_drift;
      return trial;
    });
    return *NameWinner(*MeasureFinals(trials, ConfigOf(0), {}, evaluator), ConfigOf(0));
  }

  double search_best_ns = 0;
  int64_t search_best = 0;
};

struct Bias {
  double winner = 0;  // reported time over true time - 1, mean over all searches
  double search = 0;  // the same of the best estimate of the search
  double regret = 0;  // true time of the winner over the best there is - 1, the worst
  int ties = 0;
};

Bias FiftySearches(const std::function<double(int64_t)>& truth_ns) {
  Bias bias;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    NoisyDevice device{.random = std::mt19937_64(seed)};
    double least_ns = 1e18;
    for (int64_t x = 0; x < 200; ++x) {
      device.truth_ns[x] = truth_ns(x);
      least_ns = std::min(least_ns, device.truth_ns[x]);
    }
    const Winner winner = device.Sweep();
    const double true_ns = device.truth_ns.at(XOf(winner.best.config));
    const double reported_ns = winner.best.measurement.latency_ns_median;
    EXPECT_LE(reported_ns, winner.default_trial->measurement.latency_ns_median) << seed;
    bias.winner += (reported_ns / true_ns - 1) / 50;
    bias.search += (device.search_best_ns / device.truth_ns.at(device.search_best) - 1) / 50;
    bias.regret = std::max(bias.regret, true_ns / least_ns - 1);
    bias.ties += static_cast<int>(winner.ties.size());
  }
  return bias;
}

TEST(Winner, ItsTimeIsUnbiasedOverFiftySearches) {
  const Bias bias = FiftySearches([](int64_t x) { return 1e5 * (1 + 0.0005 * ((x * 37) % 200)); });
  EXPECT_LT(std::abs(bias.winner), 0.005) << bias.winner;
  EXPECT_LT(bias.search, 2 * -std::abs(bias.winner)) << "the search's own figure is lucky";
  EXPECT_LT(bias.regret, 0.01);
}

TEST(Winner, ItsTimeIsUnbiasedWhereAllConfigsAreAlike) {
  const Bias bias = FiftySearches([](int64_t) { return 1e5; });
  EXPECT_LT(std::abs(bias.winner), 0.005) << bias.winner;
  EXPECT_LT(bias.search, -0.008) << bias.search;
  EXPECT_GT(bias.ties, 50 * 3);
}

}  // namespace
}  // namespace tune
