// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/device_supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/server/supervision/scripted.h"

namespace tune::server {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

RunRequest Request(const std::string& behaviour) {
  RunRequest request;
  request.program.binary = behaviour;
  return request;
}

class DeviceSupervisorTest : public testing::Test {
 protected:
  DeviceSupervisorTest() {
    options_.id = "test:0";
    options_.command = ScriptedCommand("device", dir_);
  }
  DeviceSupervisor& supervisor() {
    if (supervisor_ == nullptr) supervisor_ = std::make_unique<DeviceSupervisor>(options_);
    return *supervisor_;
  }
  void SetCanary(const std::string& behaviour) {
    options_.command = ScriptedCommand("device", dir_, {"--canary", behaviour});
  }
  void Prepare() {
    const absl::Status prepared = supervisor().Prepare({}, "ok", 1);
    ASSERT_TRUE(prepared.ok()) << prepared;
  }
  RunReport Run(const std::string& behaviour) {
    absl::StatusOr<RunReport> report = supervisor().Run(Request(behaviour));
    EXPECT_TRUE(report.ok()) << behaviour << ": " << report.status();
    return report.value_or(RunReport{});
  }

  TempDir dir_;
  DeviceSupervisorOptions options_;
  std::unique_ptr<DeviceSupervisor> supervisor_;
};

TEST_F(DeviceSupervisorTest, KnowsItsDeviceOnceOpened) {
  EXPECT_EQ(supervisor().Status().state, DeviceState::kUnavailable);
  ASSERT_TRUE(supervisor().Open().ok());
  const DeviceStatus status = supervisor().Status();
  EXPECT_EQ(status.state, DeviceState::kHealthy);
  EXPECT_EQ(status.info.name, "scripted device");
  EXPECT_EQ(status.message, "");
  supervisor().Close();
  EXPECT_EQ(supervisor().Status().info.name, "scripted device");
}

TEST_F(DeviceSupervisorTest, NoDriverIsASentence) {
  options_.command = ScriptedCommand("device", dir_, {"--broken", "install the driver"});
  EXPECT_EQ(supervisor().Open().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(supervisor().Status().state, DeviceState::kUnavailable);
  EXPECT_EQ(supervisor().Status().message, "install the driver");
}

TEST_F(DeviceSupervisorTest, MeasuresCeilingsOnce) {
  EXPECT_THAT(supervisor().Ceilings().value(), SizeIs(2));
  EXPECT_THAT(supervisor().Status().ceilings, SizeIs(2));
  supervisor().SetCeilings({{"dram_copy", 7, CeilingSource::kMeasured}});
  EXPECT_THAT(supervisor().Ceilings().value(), SizeIs(1)) << "known, so not measured again";
}

TEST_F(DeviceSupervisorTest, OnlyWhatWasMeasuredIsToBeKept) {
  supervisor().SetCeilings(
      {{"dram_copy", 5e11, CeilingSource::kMeasured}, {"f32", 9e13, CeilingSource::kMeasured}});
  EXPECT_THAT(supervisor().Ceilings().value(), SizeIs(2));
  EXPECT_THAT(supervisor().Status().unsaved, SizeIs(0)) << "the store's own";
  const int64_t before_ms = absl::ToUnixMillis(absl::Now());
  const std::vector<Ceiling> raised = supervisor().RaiseCeilings().value();
  EXPECT_THAT(raised, SizeIs(2));
  const std::vector<MeasuredCeiling> unsaved = supervisor().Status().unsaved;
  ASSERT_THAT(unsaved, SizeIs(1)) << "the other was found lower";
  EXPECT_EQ(unsaved[0].ceiling.name, "dram_copy");
  EXPECT_EQ(unsaved[0].ceiling.value, 1e12);
  EXPECT_GE(unsaved[0].measured_unix_ms, before_ms);
}

TEST_F(DeviceSupervisorTest, RunsWhatItIsGiven) {
  EXPECT_EQ(supervisor().Run(Request("ok")).status().code(), absl::StatusCode::kFailedPrecondition);
  Prepare();
  EXPECT_EQ(Run("samples 250").samples_ns.at(0), 250);
  EXPECT_EQ(Run("outcome 6").outcome, Outcome::kWrongResult);
  EXPECT_EQ(Run("outcome 5").outcome, Outcome::kLaunchFailed);
  EXPECT_EQ(supervisor().Status().worker_restarts, 0u);
}

TEST_F(DeviceSupervisorTest, BlamesOnlyWhatFailsTwice) {
  Prepare();
  for (const char* behaviour :
       {"outcome 7", "crash", "exit", "garbage", "oversized", "truncated", "chatter", "unusable",
        "outcome 3", "samples -1", "samples 1e300", "empties", "sulk", "forge"}) {
    const uint64_t before = supervisor().Status().worker_restarts;
    const RunReport report = Run(behaviour);
    EXPECT_EQ(report.outcome, Outcome::kFaulted) << behaviour;
    EXPECT_THAT(report.message, HasSubstr("failed twice")) << behaviour;
    EXPECT_EQ(supervisor().Status().worker_restarts, before + 2) << behaviour;
    EXPECT_EQ(supervisor().Status().state, DeviceState::kSuspect);
    EXPECT_EQ(Run("ok").outcome, Outcome::kOk) << "the next variant after " << behaviour;
    EXPECT_EQ(supervisor().Status().state, DeviceState::kHealthy);
  }
  EXPECT_THAT(Run("loud outcome 7").message, HasSubstr("its last words: variant.cu:4: assertion"));
}

TEST_F(DeviceSupervisorTest, AWorkerRunsProblemsOfOneOriginAlone) {
  const auto prepare = [&](const std::string& origin) {
    ProblemPlan problem;
    problem.origin = origin;
    ASSERT_TRUE(supervisor().Prepare(problem, "ok", 1).ok());
  };
  const auto requests = [&] { return std::stoi(Run("count").message); };
  prepare("alice");
  const int first = requests();
  EXPECT_EQ(requests(), first + 1);
  prepare("alice");
  EXPECT_EQ(requests(), first + 3) << "the same process";
  prepare("mallory");
  EXPECT_EQ(requests(), first) << "a process that has run nothing of alice's";
  prepare("alice");
  EXPECT_EQ(requests(), first);
  EXPECT_EQ(supervisor().Status().worker_restarts, 0u) << "nothing had gone wrong";
}

TEST_F(DeviceSupervisorTest, AnInnocentVariantIsMeasuredAgain) {
  Prepare();
  for (const char* behaviour : {"once crash", "once garbage", "once outcome 7", "once exit"}) {
    EXPECT_EQ(Run(behaviour).outcome, Outcome::kOk) << behaviour;
  }
  EXPECT_EQ(supervisor().Status().worker_restarts, 4u);
}

TEST_F(DeviceSupervisorTest, ATimeoutIsBlamedAtOnce) {
  options_.run_deadline = absl::Milliseconds(300);
  Prepare();
  const RunReport report = Run("hang");
  EXPECT_EQ(report.outcome, Outcome::kTimedOut);
  EXPECT_THAT(report.message, HasSubstr("300ms"));
  EXPECT_EQ(supervisor().Status().worker_restarts, 1u) << "no second try";
  EXPECT_EQ(Run("ok").outcome, Outcome::kOk);
}

TEST_F(DeviceSupervisorTest, ReplacesAWorkerOfAge) {
  options_.runs_per_worker = 2;
  Prepare();
  // The reference is run first by each process.
  for (const char* expected : {"3", "4", "3", "4"}) EXPECT_EQ(Run("count").message, expected);
  EXPECT_EQ(supervisor().Status().worker_restarts, 0u);
}

TEST_F(DeviceSupervisorTest, ACanaryThatFailsOnceIsForgiven) {
  SetCanary("once unusable");
  EXPECT_TRUE(supervisor().Open().ok());
  EXPECT_EQ(supervisor().Status().state, DeviceState::kHealthy);
}

TEST_F(DeviceSupervisorTest, ACanaryThatKeepsFailingQuarantinesTheDevice) {
  for (const char* canary : {"unusable", "crash", "hang"}) {
    supervisor_.reset();
    options_.canary_deadline = absl::Milliseconds(300);
    SetCanary(canary);
    const absl::Status status = supervisor().Open();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << canary;
    EXPECT_THAT(std::string(status.message()), HasSubstr("quarantined"));
    EXPECT_EQ(supervisor().Status().state, DeviceState::kQuarantined);
    EXPECT_THAT(supervisor().Status().message, HasSubstr("canary"));
  }
}

TEST_F(DeviceSupervisorTest, AReferenceAtFaultIsTheKernelsFault) {
  EXPECT_EQ(supervisor().Prepare({}, "unusable", 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(supervisor().Status().worker_restarts, 0u);
  EXPECT_EQ(supervisor().Prepare({}, "crash", 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(supervisor().Status().worker_restarts, 2u);
  EXPECT_TRUE(supervisor().Prepare({}, "once crash", 1).ok());
}

TEST_F(DeviceSupervisorTest, AReferenceThatHangsIsTheKernelsFault) {
  options_.prepare_deadline = absl::Milliseconds(300);
  const absl::Status status = supervisor().Prepare({}, "hang", 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("smaller problem"));
}

TEST_F(DeviceSupervisorTest, StopsWaitingWhenCancelled) {
  Prepare();
  {
    TrueAfter cancel(absl::Milliseconds(100));
    EXPECT_EQ(supervisor().Run(Request("hang"), cancel.AsCancelled()).status().code(),
              absl::StatusCode::kCancelled);
    EXPECT_LT(absl::Now() - cancel.set_at(), absl::Seconds(1));
    EXPECT_EQ(supervisor().Status().state, DeviceState::kHealthy) << "nothing is held against it";
    EXPECT_EQ(supervisor().Status().worker_restarts, 0u);
  }
  {
    TrueAfter cancel(absl::Milliseconds(300));
    EXPECT_EQ(supervisor().Prepare({}, "hang", 1, cancel.AsCancelled()).code(),
              absl::StatusCode::kCancelled);
    EXPECT_LT(absl::Now() - cancel.set_at(), absl::Seconds(1));
  }
}

// A process that the kernel does not let go of cannot be made to order; one that nobody has killed
// yet stands for it.
TEST_F(DeviceSupervisorTest, AWorkerThatDoesNotEndKeepsItsDeviceOutOfUse) {
  Prepare();
  std::unique_ptr<WorkerProcess> stuck =
      WorkerProcess::Start(ScriptedCommand("device", dir_)).value();
  const pid_t pid = stuck->pid();
  // A stuck worker of a twin keeps the device out of use for all.
  supervisor().MakeTwin("other")->OutOfUseUntilOver(std::move(stuck));
  EXPECT_EQ(supervisor().Status().state, DeviceState::kUnavailable);
  EXPECT_THAT(supervisor().Status().message, HasSubstr(absl::StrCat("process ", pid)));
  EXPECT_EQ(supervisor().Run(Request("ok")).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(supervisor().MakeTwin("another")->Open().code(), absl::StatusCode::kUnavailable);
  kill(pid, SIGKILL);
  ASSERT_TRUE(Ends(pid));
  EXPECT_TRUE(supervisor().Open().ok());
  EXPECT_EQ(supervisor().Status().state, DeviceState::kHealthy);
  EXPECT_EQ(Run("ok").outcome, Outcome::kOk);
}

TEST_F(DeviceSupervisorTest, ClosedAndPreparedAgainItHasAFreshWorker) {
  Prepare();
  EXPECT_EQ(Run("count").message, "3");
  EXPECT_EQ(Run("count").message, "4");
  supervisor().Close();
  EXPECT_EQ(supervisor().Run(Request("count")).status().code(),
            absl::StatusCode::kFailedPrecondition);
  Prepare();
  EXPECT_EQ(Run("count").message, "3");
}

}  // namespace
}  // namespace tune::server
