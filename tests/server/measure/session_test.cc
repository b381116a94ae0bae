// SPDX-License-Identifier: Apache-2.0
// A session over scripted workers: what a full device and a replaced process mean.
#include "server/measure/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/server/supervision/scripted.h"

namespace tune::server {
namespace {

class SessionTest : public testing::Test {
 protected:
  void Make(std::vector<std::string> args = {}) {
    session_.reset();
    DeviceSupervisorOptions options;
    options.id = "test:0";
    options.command = ScriptedCommand("device", dir_, std::move(args));
    device_ = std::make_unique<DeviceSupervisor>(options);
    session_ = std::make_unique<DeviceSession>(*device_, compilers_, "twin", /*twins=*/2,
                                               [] { return false; });
  }
  absl::Status Prepare(size_t twin, IfFull if_full = IfFull::kFail) {
    return session_->Prepare(twin, {}, "ok", /*seed=*/1, if_full);
  }
  Leg Measure(size_t twin, const std::string& behaviour) {
    absl::StatusOr<Leg> leg = session_->Measure(twin, {.program = {.binary = behaviour}});
    EXPECT_TRUE(leg.ok()) << leg.status();
    return leg.value_or(Leg{});
  }
  // How many requests of this kind its process has had.
  int Count(size_t twin) { return std::stoi(Measure(twin, "count").report.message); }

  TempDir dir_;
  const Compilers compilers_;
  std::unique_ptr<DeviceSupervisor> device_;
  std::unique_ptr<DeviceSession> session_;
};

TEST_F(SessionTest, TwinsAreProcessesOfTheirOwnAndFreshOnceRenewed) {
  Make();
  ASSERT_TRUE(session_->Renew({0, 1}).ok());
  ASSERT_TRUE(Prepare(0).ok());
  ASSERT_TRUE(Prepare(1).ok());
  const int first = Count(0);
  EXPECT_EQ(Count(0), first + 1);
  EXPECT_EQ(Count(1), first);
  ASSERT_TRUE(session_->Renew({0, 1}).ok());
  ASSERT_TRUE(Prepare(0).ok());
  EXPECT_EQ(Count(0), first);
}

TEST_F(SessionTest, AReplacedProcessIsSaid) {
  Make();
  ASSERT_TRUE(Prepare(0).ok());
  EXPECT_FALSE(Measure(0, "ok").replaced);
  const Leg leg = Measure(0, "once crash");
  EXPECT_EQ(leg.report.outcome, Outcome::kOk);
  EXPECT_TRUE(leg.replaced);
  EXPECT_FALSE(Measure(0, "ok").replaced);
}

TEST_F(SessionTest, AFullDeviceIsTheProblemsFaultIfBothAreNeeded) {
  Make({"--room", "1"});
  ASSERT_TRUE(session_->Renew({0, 1}).ok());
  const absl::Status full = Prepare(0);
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_TRUE(IsVariantsFault(full));
}

TEST_F(SessionTest, OnAFullDeviceATwinMayHaveItAlone) {
  Make({"--room", "1"});
  ASSERT_TRUE(session_->Renew({0, 1}).ok());
  EXPECT_TRUE(Prepare(0, IfFull::kUseAlone).ok());
  EXPECT_EQ(Measure(0, "ok").report.outcome, Outcome::kOk);
  session_->Retire(0);
  EXPECT_TRUE(Prepare(1).ok()) << "the first has gone already";
}

TEST_F(SessionTest, AReferenceAtFaultIsTheProblemsAndALostDeviceIsNot) {
  Make();
  EXPECT_TRUE(IsVariantsFault(session_->Prepare(0, {}, "unusable", 1, IfFull::kUseAlone)));
  Make({"--canary", "crash"});
  EXPECT_FALSE(IsVariantsFault(Prepare(0)));
  EXPECT_FALSE(Prepare(0).ok());
}

TEST_F(SessionTest, ASessionOfTheDeviceItselfUsesItsWorker) {
  Make();
  DeviceSession own(*device_, compilers_, [] { return false; });
  ASSERT_TRUE(own.Prepare(0, {}, "ok", 1, IfFull::kFail).ok());
  EXPECT_TRUE(own.Measure(0, {.program = {.binary = "once crash"}})->replaced);
  EXPECT_EQ(device_->Status().worker_restarts, 1u);
}

}  // namespace
}  // namespace tune::server
