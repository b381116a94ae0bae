// SPDX-License-Identifier: Apache-2.0
// The installed compile workers, inside their walls.
#include "server/pool/workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/pool/compile_check.h"
#include "tests/server_pool/scripted.h"
#include "tests/server_pool/small_kernel.h"

namespace tune::server {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::SizeIs;

class WorkersTest : public testing::Test {
 protected:
  WorkersTest() {
    workers_ = Workers::Create({.state_dir = dir_ / "state", .worker_dir = WORKER_DIR}).value();
  }
  // Compiles every variant of the small kernel for a target.
  absl::StatusOr<CompileReport> CompileAll(const std::string& faults, const std::string& target) {
    const std::shared_ptr<const Kernel> kernel = SmallKernel(faults).value();
    const TargetTraits traits = TargetTraitsFor(target).value();
    const Problem problem = kernel->MakeProblem({}, "", target).value();
    const Space space = kernel->MakeSpace(problem, traits).value();
    std::vector<Config> configs;
    for (uint64_t i = 0; i < space.size(); ++i) configs.push_back(space.At(i));
    CompilePool* pool = workers_->PoolFor(target).value();
    return CompileOnly(*kernel, problem, traits, configs, *pool);
  }

  TempDir dir_;
  std::unique_ptr<Workers> workers_;
};

TEST_F(WorkersTest, ADeviceThatIsNotThereIsNamedWithThoseThatAre) {
  const absl::Status status = workers_->FindDevice("cuda:99").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cpu"));
  EXPECT_EQ(workers_->FindDevice("cpu").value()->id(), "cpu");
}

#ifdef TUNE_CPU
TEST_F(WorkersTest, CompilesForTheCpuInsideItsWalls) {
  absl::StatusOr<CompilerInfo> info = workers_->PoolFor("cpu").value()->Info();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_THAT(info->targets, Contains("cpu"));
  absl::StatusOr<CompileReport> report = CompileAll("[0]", "cpu");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->compiled, 6u);
  EXPECT_THAT(report->findings, SizeIs(0)) << report->findings[0].message;
}
#endif

#ifdef TUNE_CUDA
TEST_F(WorkersTest, CompilesForGpusInsideItsWallsWithoutOne) {
  for (const char* target : {"sm_80", "sm_90a"}) {
    absl::StatusOr<CompileReport> report = CompileAll("[0, 1]", target);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->compiled, 6u);
    ASSERT_THAT(report->findings, SizeIs(1));
    EXPECT_THAT(report->findings[0].variant, HasSubstr("FAULT=1"));
    EXPECT_THAT(report->findings[0].message, HasSubstr("compile_failed"));
    EXPECT_THAT(report->findings[0].message, HasSubstr("this does not compile"));
  }
}

TEST_F(WorkersTest, AGpuWithoutADriverIsASentence) {
  DeviceLease* device = workers_->FindDevice("cuda:0").value();
  const absl::Status opened = device->Open();
  if (opened.ok()) GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(opened.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(device->Status().state, DeviceState::kUnavailable);
  EXPECT_NE(device->Status().message, "");
}
#else
TEST_F(WorkersTest, WithoutCudaATargetOfItIsASentence) {
  const absl::Status status = workers_->PoolFor("sm_90a").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("TUNE_CUDA=ON"));
}
#endif

}  // namespace
}  // namespace tune::server
