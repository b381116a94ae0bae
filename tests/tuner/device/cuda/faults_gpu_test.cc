// SPDX-License-Identifier: Apache-2.0
// Kernels that lose the context. Each runs in a process of its own: a death test that starts this
// program again.
#include <cstdio>
#include <string>

#include "tests/tuner/device/cuda/gpu_fixture.h"

namespace tune::cuda {
namespace {

class FaultsGpuDeathTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    testing::FLAGS_gtest_death_test_style = "threadsafe";
  }

  // 0 if the variant is an outcome, and the runner says that it is done for.
  [[noreturn]] void RunAndExit(const std::string& body) {
    absl::Status status = PrepareDoubling(10'000);
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      std::_Exit(2);
    }
    absl::StatusOr<RunReport> report = runner().Run(Doubling(body));
    if (!report.ok()) {
      std::fprintf(stderr, "%s\n", report.status().ToString().c_str());
      std::_Exit(3);
    }
    std::fprintf(stderr, "%s: %s\n", ToText(report->outcome).c_str(), report->message.c_str());
    if (report->outcome != Outcome::kFaulted) std::_Exit(4);
    if (!absl::IsUnavailable(runner().Run(Doubling(kGood)).status())) std::_Exit(5);
    if (!absl::IsUnavailable(runner().Canary())) std::_Exit(6);
    if (!absl::IsUnavailable(PrepareDoubling(10))) std::_Exit(7);
    std::_Exit(0);
  }
};

TEST_F(FaultsGpuDeathTest, IllegalAddress) {
  EXPECT_EXIT(RunAndExit("if (i == 5) *(volatile float*)0x10 = 1.0f;"), testing::ExitedWithCode(0),
              "faulted: .*CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_F(FaultsGpuDeathTest, MisalignedAddress) {
  EXPECT_EXIT(RunAndExit("if (i == 5) *(volatile float*)((char*)y + 1) = 1.0f;"),
              testing::ExitedWithCode(0), "faulted: .*CUDA_ERROR_MISALIGNED_ADDRESS");
}

TEST_F(FaultsGpuDeathTest, Trap) {
  EXPECT_EXIT(RunAndExit("if (i == 5) __trap();"), testing::ExitedWithCode(0),
              "faulted: .*CUDA_ERROR_(ILLEGAL_INSTRUCTION|LAUNCH_FAILED)");
}

// The driver reports the place on stderr, which the worker's owner reads.
TEST_F(FaultsGpuDeathTest, Assert) {
  EXPECT_EXIT(RunAndExit("assert(i != 5);"), testing::ExitedWithCode(0),
              "Assertion `i != 5` failed.*faulted: .*CUDA_ERROR_ASSERT");
}

// Right in the check launch, wrong later: the fault comes in a timed launch.
TEST_F(FaultsGpuDeathTest, FaultInATimedLaunch) {
  EXPECT_EXIT(RunAndExit("static __device__ int launches; if (i < n) y[i] = 2.0f * x[i];"
                         "if (i == n - 1 && atomicAdd(&launches, 1) > 3) __trap();"),
              testing::ExitedWithCode(0), "faulted: ");
}

TEST_F(FaultsGpuDeathTest, FaultOfTheReference) {
  ProblemPlan plan;
  plan.buffers = {Buffer("y", DType::kF32, 10, Role::kOutput)};
  plan.reference.steps = {{.launch = Launch1d("reference", 10, 32),
                           .args = {Buffer("y", DType::kF64, 10, Role::kOutput)}}};
  EXPECT_EXIT(
      {
        absl::Status status = runner().Prepare(
            plan,
            CompileText("extern \"C\" __global__ void reference(double* y) { __trap(); }",
                        "reference"),
            1);
        std::fprintf(stderr, "%s\n", status.ToString().c_str());
        std::_Exit(absl::IsInvalidArgument(status) && absl::IsUnavailable(runner().Canary()) ? 0
                                                                                             : 1);
      },
      testing::ExitedWithCode(0), "the reference failed: ");
}

}  // namespace
}  // namespace tune::cuda
