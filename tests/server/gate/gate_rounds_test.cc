// SPDX-License-Identifier: Apache-2.0
#include "server/gate/gate_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/server/measure/fake_session.h"

namespace tune::server {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Side = gate::Revision;

class GateRoundsTest : public testing::Test {
 protected:
  GateRoundsTest() {
    base_.compiled.artifact.binary = "base";
    head_.compiled.artifact.binary = "head";
  }
  static std::vector<Side> SidesOf(const GateRounds::Outcome& outcome) {
    std::vector<Side> sides;
    for (const db::LegRow& row : outcome.legs) sides.push_back(row.leg.revision);
    return sides;
  }

  FakeSession session_;
  Variant base_;
  Variant head_;
  GateRounds rounds_{session_, {.samples_max = 7}, /*seed=*/1};
};

TEST_F(GateRoundsTest, RenewStartsTheBaseOnlyForAPair) {
  EXPECT_TRUE(rounds_.Renew(/*pair=*/true).ok());
  EXPECT_TRUE(rounds_.Renew(/*pair=*/false).ok());
  EXPECT_THAT(session_.calls, ElementsAre("renew 0,1", "renew 1"));
}

TEST_F(GateRoundsTest, LegsAlternateInOneOfTwoMirroredOrders) {
  std::set<std::vector<Side>> orders;
  for (int round = 0; round < 20; ++round) {
    session_.measured.clear();
    const GateRounds::Outcome outcome = rounds_.MeasureRound(&base_, head_).value();
    EXPECT_EQ(outcome.fault, "");
    ASSERT_THAT(outcome.legs, SizeIs(4));
    for (size_t i = 0; i < 4; ++i) {
      const bool is_base = outcome.legs[i].leg.revision == Side::kBase;
      EXPECT_EQ(session_.measured[i].program.binary, is_base ? "base" : "head");
      EXPECT_EQ(session_.measured[i].policy.samples_max, 7);
      EXPECT_EQ(outcome.legs[i].leg.median_ns, 100);
    }
    orders.insert(SidesOf(outcome));
  }
  EXPECT_THAT(orders, ElementsAre(std::vector{Side::kBase, Side::kHead, Side::kHead, Side::kBase},
                                  std::vector{Side::kHead, Side::kBase, Side::kBase, Side::kHead}));
}

TEST_F(GateRoundsTest, BothHaveTheSameInputsAndMemoryOfAnotherOffset) {
  ASSERT_TRUE(rounds_.MeasureRound(&base_, head_).ok());
  ASSERT_TRUE(rounds_.MeasureRound(&base_, head_).ok());
  ASSERT_THAT(session_.seeds, SizeIs(4));
  EXPECT_EQ(session_.seeds[0], session_.seeds[1]);
  EXPECT_NE(session_.seeds[1], session_.seeds[2]);
  std::set<int64_t> offsets;
  for (const ProblemPlan& plan : session_.prepared) {
    ASSERT_THAT(plan.buffers, SizeIs(1));
    EXPECT_EQ(plan.buffers[0].count % 4096, 0);
    offsets.insert(plan.buffers[0].count);
  }
  EXPECT_THAT(offsets, SizeIs(4));
}

TEST_F(GateRoundsTest, WithoutABaseTheHeadIsMeasuredTwice) {
  const GateRounds::Outcome outcome = rounds_.MeasureRound(nullptr, head_).value();
  EXPECT_THAT(SidesOf(outcome), ElementsAre(Side::kHead, Side::kHead));
  EXPECT_THAT(session_.calls, ElementsAre("prepare 1 beside", "measure 1", "measure 1"));
}

TEST_F(GateRoundsTest, AFullDeviceIsTheVariantsFaultAndSaysWhatToDo) {
  session_.prepare = [](size_t twin) {
    return twin == 1 ? absl::ResourceExhaustedError("no room") : absl::OkStatus();
  };
  const GateRounds::Outcome outcome = rounds_.MeasureRound(&base_, head_).value();
  EXPECT_THAT(outcome.fault, HasSubstr("head: no room; both revisions must fit"));
  EXPECT_THAT(outcome.legs, IsEmpty());
  EXPECT_THAT(session_.calls, ElementsAre("prepare 0 beside", "prepare 1 beside"));
}

TEST_F(GateRoundsTest, AnyOtherFailureToPrepareIsTheDevices) {
  session_.prepare = [](size_t) { return absl::UnavailableError("gone"); };
  EXPECT_EQ(rounds_.MeasureRound(&base_, head_).status(), absl::UnavailableError("gone"));
}

TEST_F(GateRoundsTest, AReplacedProcessEndsTheRoundWithoutAFault) {
  int legs = 0;
  session_.measure = [&](size_t, const Program&) { return Leg{Timed(100), ++legs == 2}; };
  const GateRounds::Outcome outcome = rounds_.MeasureRound(&base_, head_).value();
  EXPECT_EQ(outcome.fault, "");
  ASSERT_THAT(outcome.legs, SizeIs(2));
  EXPECT_EQ(outcome.legs[1].message, "its process was replaced");
  EXPECT_THAT(outcome.legs[1].leg.samples_ns, IsEmpty());
}

TEST_F(GateRoundsTest, AVariantThatFailsEndsTheRoundAsItsFault) {
  session_.measure = [&](size_t, const Program&) {
    return Leg{{.outcome = Outcome::kTimedOut, .message = "still running"}};
  };
  const GateRounds::Outcome outcome = rounds_.MeasureRound(&base_, head_).value();
  ASSERT_THAT(outcome.legs, SizeIs(1));
  EXPECT_EQ(outcome.legs[0].outcome, Outcome::kTimedOut);
  EXPECT_THAT(outcome.fault,
              AnyOf("base: timed_out: still running", "head: timed_out: still running"));
}

}  // namespace
}  // namespace tune::server
