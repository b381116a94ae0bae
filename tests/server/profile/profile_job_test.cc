// SPDX-License-Identifier: Apache-2.0
// Profiles and gates of a kernel that is written in PTX, on scripted GPUs: what compiles it, what
// its key says, and whose ceilings it is held against.
#include "server/profile/profile_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "db/store.h"
#include "server/gate/gate_plan.h"
#include "server/gate/gate_runner.h"
#include "tests/server/scripted_gpus.h"

namespace tune::server {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

// 8000 bytes; what the scripted GPU runs takes 1000 ns. `ptx` is what the compiler does.
v1::KernelSource PtxKernel(const std::string& ptx) {
  v1::KernelSource source;
  source.set_spec_name("two.textproto");
  source.set_spec_text(R"spec(
name: "two" language: PTX source: "k.ptx" entry: "k"
dims { name: "n" default_value: 1000 }
dtypes: "f32"
params { name: "THREADS" values: "[32, 64]" default_value: "32" }
args { name: "y" buffer { dtype: "f32" shape: "n" role: ROLE_OUTPUT } }
launch { grid: "1" block: "THREADS" }
work { flops: "n" bytes: "8 * n" peak: "'f32'" }
reference { source: "r.cu" entry: "r" launch { grid: "1" block: "1" } }
)spec");
  (*source.mutable_files())["k.ptx"] = ptx;
  (*source.mutable_files())["r.cu"] = "ok";
  return source;
}

class PtxJobsTest : public testing::Test {
 protected:
  PtxJobsTest() {
    gpus_.Tell(0, "--uuid GPU-first");
    gpus_.Tell(1, "--uuid GPU-second");
    workers_ = gpus_.StartWorkers();
    devices_ = std::make_unique<Devices>(*workers_, *store_, ProbeTime::kWhenAsked);
    records_ = RecordBook::Open(*store_, catalogue_, *devices_, solver_).value();
  }
  static absl::Time Soon() { return absl::Now() + absl::Seconds(60); }

  // A job as the scheduler runs it, on a device of the test's choice.
  JobWork::End Run(JobWork& work, db::JobKind kind, const std::string& device) {
    db::JobRow row{.kind = kind};
    row.id = store_->AddJob(row).value();
    Job job(row, {device}, nullptr);
    JobContext context(job, device, quiet_);
    return work.Run(context);
  }
  std::vector<db::ProfileRow> Profile(const v1::KernelSource& kernel, const std::string& device) {
    v1::SubmitProfileRequest request;
    *request.mutable_kernel_source() = kernel;
    request.set_device("any");
    ProfileJob job({catalogue_, *store_, *workers_, *devices_, *records_}, request);
    const absl::Status checked = job.Check(Soon(), {});
    EXPECT_TRUE(checked.ok()) << checked;
    if (!checked.ok()) return {};
    EXPECT_THAT(job.workload().device.ids, SizeIs(2));
    const absl::Status ran = Run(job, db::JobKind::kProfile, device).status;
    EXPECT_TRUE(ran.ok()) << ran;
    return store_->ListProfiles({.limit = 10}).value();
  }
  db::CeilingRow Copy(const std::string& uuid, double value) const {
    return {.device_name = "scripted device",
            .driver = "1",
            .ceiling = {"dram_copy", value, CeilingSource::kMeasured},
            .measured_unix_ms = absl::ToUnixMillis(absl::Now()),
            .uuid = uuid};
  }

  ScriptedGpus gpus_{2};
  std::unique_ptr<db::Store> store_ = db::Store::Open(gpus_.Path("tune.db")).value();
  const Catalogue catalogue_;
  SpaceSolver solver_;
  const QuietCompilers quiet_ = [](const auto&, const auto&) { return CompilePause(); };
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<Devices> devices_;
  std::unique_ptr<RecordBook> records_;
};

TEST_F(PtxJobsTest, AProfilesKeyHasTheCompilerOfItsLanguage) {
  const std::vector<db::ProfileRow> rows = Profile(PtxKernel("ok"), "cuda:0");
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].key.compiler, "scripted PTX 1");
  EXPECT_EQ(rows[0].profile.outcome, Outcome::kOk) << rows[0].profile.message;
  EXPECT_EQ(rows[0].profile.measurement.latency_ns_median, 1000);
}

TEST_F(PtxJobsTest, AProfileIsHeldAgainstTheCeilingsOfTheDeviceItGot) {
  // 8 ns and 80 ns are the least for 8000 bytes.
  ASSERT_TRUE(store_->PutCeilings({Copy("GPU-first", 1e12), Copy("GPU-second", 1e11)}).ok());
  const std::vector<db::ProfileRow> rows = Profile(PtxKernel("ok"), "cuda:1");
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_NEAR(rows[0].profile.measurement.peak_fraction, 0.08, 1e-3);
}

TEST_F(PtxJobsTest, AProfileSaysThatStepsDoNotFit) {
  const std::vector<db::ProfileRow> rows = Profile(PtxKernel("threads 64"), "cuda:0");
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].profile.outcome, Outcome::kInvalidConfig);
  EXPECT_THAT(rows[0].profile.message, HasSubstr("compiled for exactly 64"));
}

TEST_F(PtxJobsTest, AProfileOfADeviceThatChangedIsNotMade) {
  v1::SubmitProfileRequest request;
  *request.mutable_kernel_source() = PtxKernel("ok");
  ProfileJob job({catalogue_, *store_, *workers_, *devices_, *records_}, request);
  ASSERT_TRUE(job.Check(Soon(), {}).ok());
  gpus_.Tell(0, "--driver 2");
  ASSERT_TRUE(workers_->FindDevice("cuda:0").value()->Inspect().ok());
  const absl::Status ran = Run(job, db::JobKind::kProfile, "cuda:0").status;
  EXPECT_TRUE(absl::IsFailedPrecondition(ran)) << ran;
  EXPECT_THAT(std::string(ran.message()), HasSubstr("profile again"));
}

class PtxGateTest : public PtxJobsTest {
 protected:
  struct Gated {
    db::GateRunRow run;
    std::vector<db::GateKernelRow> kernels;
  };
  Gated Record(const v1::KernelSource& head) {
    v1::SubmitGateRequest request;
    request.set_kind(v1::GATE_KIND_HISTORY);
    *request.add_entries()->mutable_head() = head;
    request.mutable_rules()->set_screen_rounds(1);
    GatePlan gate = CheckGate(request, *store_, *devices_, Soon(), {}).value();
    db::JobRow row{.kind = db::JobKind::kGate};
    row.id = store_->AddJob(row).value();
    Job job(row, {"cuda:0"}, nullptr);
    JobContext context(job, "cuda:0", quiet_);
    const absl::StatusOr<int64_t> id =
        RunGate(*store_, *workers_, std::move(gate), context, [](const GateStep&) {});
    EXPECT_TRUE(id.ok()) << id.status();
    if (!id.ok()) return {};
    return {store_->GetGateRun(*id).value(), store_->GateKernels(*id).value()};
  }
};

TEST_F(PtxGateTest, ARunHasTheCompilerOfItsLanguage) {
  const Gated gated = Record(PtxKernel("ok"));
  EXPECT_EQ(gated.run.compiler, "scripted PTX 1");
  ASSERT_THAT(gated.kernels, SizeIs(1));
  EXPECT_EQ(gated.kernels[0].fault, "");
}

TEST_F(PtxGateTest, StepsThatDoNotFitAreTheKernelsFault) {
  const Gated gated = Record(PtxKernel("threads 64"));
  ASSERT_THAT(gated.kernels, SizeIs(1));
  EXPECT_THAT(gated.kernels[0].fault, HasSubstr("head: invalid_config"));
  EXPECT_THAT(gated.kernels[0].fault, HasSubstr("compiled for exactly 64"));
}

}  // namespace
}  // namespace tune::server
