// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "gmock/gmock.h"
#include "tuner/gate/gate.h"

namespace tune::gate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A round in which the head takes `ratio` times as long; `wobble` makes rounds differ.
RoundResult RoundOf(double ratio, double wobble = 0) {
  RoundResult round;
  round.base_log = std::log(1000.0);
  round.log_ratio = std::log(ratio) + wobble;
  round.head_log = round.base_log + round.log_ratio;
  return round;
}

// Small, different each time, of mean about zero.
double Wobble(int round) { return 0.001 * ((round * 7) % 5 - 2) + 1e-6 * round; }

using Source = std::function<RoundResult(size_t kernel, int round)>;

void Feed(Gate& gate, const Source& source) {
  std::vector<int> rounds(1000, 0);
  for (std::vector<size_t> wanted = gate.Wanted(); !wanted.empty(); wanted = gate.Wanted()) {
    for (const size_t kernel : wanted) gate.Add(kernel, source(kernel, rounds[kernel]++));
  }
}

Gate GateOf(size_t kernels, const Rules& rules = {}) {
  return Gate(rules, std::vector<double>(kernels, -1));
}

TEST(ConfirmRounds, AsThePageSays) {
  EXPECT_EQ(ConfirmRounds(1, 0.01), 15);
  EXPECT_EQ(ConfirmRounds(5, 0.01), 15);
  EXPECT_EQ(ConfirmRounds(10, 0.01), 16);
  EXPECT_EQ(ConfirmRounds(20, 0.01), 17);
  EXPECT_EQ(ConfirmRounds(50, 0.01), 19);
  EXPECT_EQ(ConfirmRounds(100, 0.01), 20);
  EXPECT_EQ(ConfirmRounds(100000, 0.001), 24);
  // The least attainable p is always small enough for a failure.
  for (int flagged : {1, 10, 100, 1000}) {
    EXPECT_LT(std::pow(2.0, -ConfirmRounds(flagged, 0.01)), 0.01 / flagged);
  }
}

TEST(LeastCaught, TableAndBetween) {
  const Rules rules;
  EXPECT_NEAR(LeastCaught(rules, 1, 0.01), 0.01 + 1.21 * 0.01, 1e-12);
  EXPECT_NEAR(LeastCaught(rules, 100, 0.01), 0.01 + 1.56 * 0.01, 1e-12);
  EXPECT_NEAR(LeastCaught(rules, 1000, 0.01), 0.01 + 1.56 * 0.01, 1e-12);
  EXPECT_GT(LeastCaught(rules, 3, 0.01), 0.01 + 1.33 * 0.01);
  EXPECT_LT(LeastCaught(rules, 3, 0.01), 0.01 + 1.48 * 0.01);
  EXPECT_NEAR(LeastCaught(rules, 0, 0.01), LeastCaught(rules, 1, 0.01), 1e-12);
}

TEST(Gate, UnchangedKernelPassesAfterTheScreening) {
  Gate gate = GateOf(2);
  EXPECT_THAT(gate.Wanted(), ElementsAre(0, 1));
  int rounds = 0;
  Feed(gate, [&](size_t, int round) {
    ++rounds;
    return RoundOf(1, Wobble(round));
  });
  EXPECT_EQ(rounds, 2 * 5);
  const Judgement judgement = gate.Judge(0);
  EXPECT_EQ(judgement.verdict, Verdict::kPass);
  EXPECT_NEAR(judgement.ratio, 1, 0.001);
  EXPECT_EQ(judgement.rounds, 5);
  EXPECT_FALSE(judgement.flagged);
  EXPECT_NEAR(judgement.least_caught, 0.01 + 1.21 * judgement.deviation, 1e-9);
}

TEST(Gate, SlowerKernelFailsOnFreshRounds) {
  Gate gate = GateOf(3);
  Feed(gate,
       [](size_t kernel, int round) { return RoundOf(kernel == 1 ? 1.03 : 1, Wobble(round)); });
  EXPECT_EQ(gate.Judge(0).verdict, Verdict::kPass);
  EXPECT_EQ(gate.Judge(2).verdict, Verdict::kPass);
  const Judgement judgement = gate.Judge(1);
  EXPECT_EQ(judgement.verdict, Verdict::kFail);
  EXPECT_EQ(judgement.rounds, 15) << "the screening's rounds do not count";
  EXPECT_NEAR(judgement.ratio, 1.03, 0.001);
  EXPECT_LT(judgement.ratio_low, judgement.ratio);
  EXPECT_NEAR(judgement.p, std::pow(2.0, -15), 1e-9);
  EXPECT_NEAR(judgement.p_needed, 0.01, 1e-12);
}

TEST(Gate, TheScreeningCountsForNothingInTheConfirmation) {
  Gate gate = GateOf(1);
  int rounds = 0;
  Feed(gate, [&](size_t, int round) {
    ++rounds;
    return RoundOf(round < 5 ? 1.5 : 1.03, Wobble(round));
  });
  EXPECT_EQ(rounds, 5 + 15);
  const Judgement judgement = gate.Judge(0);
  EXPECT_EQ(judgement.rounds, 15);
  EXPECT_NEAR(judgement.ratio, 1.03, 0.001);
}

TEST(Gate, FlaggedButNotConfirmedPasses) {
  Gate gate = GateOf(1);
  Feed(gate, [](size_t, int round) { return RoundOf(round < 5 ? 1.03 : 1, Wobble(round)); });
  const Judgement judgement = gate.Judge(0);
  EXPECT_TRUE(judgement.flagged);
  EXPECT_EQ(judgement.verdict, Verdict::kPass);
  EXPECT_GT(judgement.p, 0.01);
}

TEST(Gate, ExactlyTheToleranceIsNoFailure) {
  Gate gate = GateOf(1);
  Feed(gate, [](size_t, int round) { return RoundOf(round < 5 ? 1.02 : 1.01, Wobble(round)); });
  EXPECT_EQ(gate.Judge(0).verdict, Verdict::kPass);
}

TEST(Gate, AlphaIsSharedByTheFlagged) {
  Gate gate = GateOf(20);
  Feed(gate, [](size_t, int round) { return RoundOf(1.05, Wobble(round)); });
  EXPECT_EQ(gate.flagged(), 20);
  const Judgement judgement = gate.Judge(7);
  EXPECT_EQ(judgement.rounds, 17);
  EXPECT_NEAR(judgement.p_needed, 0.01 / 20, 1e-12);
  EXPECT_EQ(judgement.verdict, Verdict::kFail);
}

TEST(Gate, FasterIsReportedAndNeverFails) {
  Gate gate = GateOf(1);
  Feed(gate, [](size_t, int round) { return RoundOf(0.95, Wobble(round)); });
  const Judgement judgement = gate.Judge(0);
  EXPECT_EQ(judgement.verdict, Verdict::kPass);
  EXPECT_TRUE(judgement.improved);
  EXPECT_FALSE(judgement.flagged);
  EXPECT_EQ(gate.flagged(), 0);
}

TEST(Gate, SlowerInTimeButNotInCyclesIsTheClock) {
  Gate gate = GateOf(1);
  Feed(gate, [](size_t, int round) {
    RoundResult result = RoundOf(1.04, Wobble(round));
    result.cycle_log_ratio = 0.001;
    return result;
  });
  const Judgement judgement = gate.Judge(0);
  EXPECT_EQ(judgement.verdict, Verdict::kInconclusive);
  EXPECT_THAT(judgement.reason, HasSubstr("clock"));
  EXPECT_THAT(judgement.reason, HasSubstr("96.2 %"));
}

TEST(Gate, SlowerInCyclesTooFails) {
  Gate gate = GateOf(1);
  Feed(gate, [](size_t, int round) {
    RoundResult result = RoundOf(1.04, Wobble(round));
    result.cycle_log_ratio = std::log(1.04);
    return result;
  });
  EXPECT_EQ(gate.Judge(0).verdict, Verdict::kFail);
}

TEST(Gate, TooMuchNoiseIsUnguarded) {
  Gate gate = GateOf(1);
  Feed(gate, [](size_t, int round) { return RoundOf(1, round % 2 == 0 ? 0.04 : -0.06); });
  const Judgement judgement = gate.Judge(0);
  EXPECT_EQ(judgement.verdict, Verdict::kUnguarded);
  EXPECT_THAT(judgement.reason, HasSubstr("more than the 2.8 %"));
}

TEST(Gate, AWideIntervalIsInconclusive) {
  Gate gate = GateOf(1, {.delta_max = 0.015});
  Feed(gate, [](size_t, int round) { return RoundOf(1, 0.02 * (round % 5 - 2) / 2); });
  const Judgement judgement = gate.Judge(0);
  EXPECT_EQ(judgement.verdict, Verdict::kInconclusive);
  EXPECT_THAT(judgement.reason, HasSubstr("the limit is 1.5 %"));
}

TEST(Gate, InvalidRoundsAreReplacedUpToALimit) {
  RoundResult invalid;
  invalid.invalid = "the device was throttled";
  Gate gate = GateOf(2);
  Feed(gate, [&](size_t kernel, int round) {
    const bool bad = kernel == 0 ? round % 2 == 0 && round < 6 : round >= 1;
    return bad ? invalid : RoundOf(1, Wobble(round));
  });
  const Judgement kept = gate.Judge(0);
  EXPECT_EQ(kept.verdict, Verdict::kPass);
  EXPECT_EQ(kept.rounds, 5);
  EXPECT_EQ(kept.invalid_rounds, 3);
  const Judgement lost = gate.Judge(1);
  EXPECT_EQ(lost.verdict, Verdict::kInvalid);
  EXPECT_EQ(lost.reason, "the device was throttled");
  EXPECT_EQ(lost.invalid_rounds, 4) << "three were replaced";
}

TEST(Gate, IdenticalAndInvalidTakeNoRounds) {
  Gate gate = GateOf(2);
  gate.SetIdentical(0);
  EXPECT_THAT(gate.Wanted(), ElementsAre(1));
  gate.SetInvalid(1, "head: wrong_result");
  EXPECT_TRUE(gate.Wanted().empty());
  EXPECT_EQ(gate.Judge(0).verdict, Verdict::kIdentical);
  EXPECT_EQ(gate.Judge(1).verdict, Verdict::kInvalid);
  EXPECT_EQ(gate.Judge(1).reason, "head: wrong_result");
}

TEST(Gate, AKernelThatBreaksInTheConfirmationIsInvalid) {
  Gate gate = GateOf(2);
  for (int round = 0; round < 5; ++round) {
    gate.Add(0, RoundOf(1.05, Wobble(round)));
    gate.Add(1, RoundOf(1, Wobble(round)));
  }
  EXPECT_EQ(gate.stage(), Stage::kConfirm);
  EXPECT_THAT(gate.Wanted(), ElementsAre(0));
  gate.SetInvalid(0, "faulted");
  EXPECT_TRUE(gate.Wanted().empty());
  EXPECT_EQ(gate.Judge(0).verdict, Verdict::kInvalid);
  EXPECT_EQ(gate.Judge(1).verdict, Verdict::kPass);
}

TEST(Gate, AKernelsOwnTolerance) {
  Gate gate({}, {-1, 0.05});
  Feed(gate, [](size_t, int round) { return RoundOf(1.03, Wobble(round)); });
  EXPECT_EQ(gate.Judge(0).verdict, Verdict::kFail);
  EXPECT_EQ(gate.Judge(1).verdict, Verdict::kPass);
  EXPECT_NEAR(gate.Judge(1).least_caught, 0.05, 0.01);
}

TEST(Gate, TwoKindsOfProcessesAreNamed) {
  Gate gate = GateOf(1);
  Feed(gate, [](size_t, int round) {
    RoundResult result = RoundOf(1, Wobble(round));
    // Flagged once, so that there are rounds enough to see it.
    if (round < 5 || round % 4 == 0) result = RoundOf(1.05, Wobble(round));
    return result;
  });
  EXPECT_TRUE(gate.Judge(0).bimodal);
}

TEST(Gate, NoKernelsIsDecidedAtOnce) { EXPECT_TRUE(GateOf(0).Wanted().empty()); }

}  // namespace
}  // namespace tune::gate
