// SPDX-License-Identifier: Apache-2.0
#include "server/measure/final_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/server/measure/fake_executor.h"
#include "tests/server/measure/fake_session.h"

namespace tune::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class FinalRoundsTest : public testing::Test {
 protected:
  absl::StatusOr<std::vector<Trial>> Run() {
    if (session_ != nullptr) session_->calls.clear();
    return rounds_.Run({}, "reference", /*seed=*/5, attempts_);
  }
  std::vector<std::string> calls() const { return session_->calls; }

  FakeSession* session_ = nullptr;  // the newest
  std::vector<size_t> sizes_;       // of the sessions
  std::function<absl::Status(size_t)> renew_;
  std::function<absl::StatusOr<Leg>(size_t, const Program&)> measure_;
  FinalRounds rounds_{[this](size_t twins) {
                        auto session = std::make_unique<FakeSession>();
                        session_ = session.get();
                        session->renew = renew_;
                        session->measure = measure_;
                        sizes_.push_back(twins);
                        return session;
                      },
                      {.samples_max = 3}};
  std::vector<AttemptPtr> attempts_ = {AttemptAt(2), AttemptAt(1)};
};

TEST_F(FinalRoundsTest, ExpectedRoundsHaveATwinEachStartedTogether) {
  rounds_.Expect(2);
  const std::vector<Trial> trials = Run().value();
  ASSERT_EQ(trials.size(), 2u);
  EXPECT_EQ(XOf(trials[0]), 2);
  EXPECT_EQ(XOf(trials[1]), 1);
  EXPECT_EQ(trials[0].measurement.latency_ns_median, 100);
  EXPECT_EQ(session_->measured[0].policy.samples_max, 3);
  EXPECT_THAT(session_->seeds, ElementsAre(5));
  EXPECT_THAT(calls(), ElementsAre("quiet", "renew 0,1", "prepare 1 alone", "measure 1",
                                   "measure 1", "retire 1"));
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(calls(),
              ElementsAre("quiet", "prepare 0 alone", "measure 0", "measure 0", "retire 0"));
  EXPECT_THAT(sizes_, ElementsAre(2));
}

TEST_F(FinalRoundsTest, ARoundThatWasNotExpectedHasASessionOfItsOwn) {
  ASSERT_TRUE(Run().ok());
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(sizes_, ElementsAre(1, 1));
}

TEST_F(FinalRoundsTest, ProcessesThatDoNotStartTogetherStartOneByOne) {
  renew_ = [](size_t) { return absl::UnavailableError("no memory"); };
  rounds_.Expect(2);
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(calls(), ElementsAre("quiet", "renew 0,1", "close", "prepare 1 alone", "measure 1",
                                   "measure 1", "retire 1"));
}

TEST_F(FinalRoundsTest, WhatDidNotCompileStaysAsItIs) {
  attempts_[0]->trial.outcome = Outcome::kCompileFailed;
  attempts_[0]->trial.message = "no";
  const std::vector<Trial> trials = Run().value();
  EXPECT_EQ(trials[0].outcome, Outcome::kCompileFailed);
  EXPECT_EQ(trials[0].message, "no");
  EXPECT_EQ(trials[1].outcome, Outcome::kOk);
  EXPECT_EQ(session_->measured.size(), 1u);
}

TEST_F(FinalRoundsTest, ALostDeviceEndsTheRound) {
  measure_ = [](size_t, const Program&) { return absl::UnavailableError("gone"); };
  EXPECT_EQ(Run().status(), absl::UnavailableError("gone"));
}

}  // namespace
}  // namespace tune::server
