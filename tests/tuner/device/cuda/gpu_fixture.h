// SPDX-License-Identifier: Apache-2.0
// Shared by tests that need a GPU: one runner per process, and plans of one-array kernels.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tuner/device/cuda/cuda_runner.h"
#include "tuner/device/cuda/nvrtc_compiler.h"
#include "tuner/device/runner.h"

namespace tune::cuda {

// Skips each test, with the reason, where there is no GPU.
class GpuTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (shared().compiler != nullptr) return;
    absl::StatusOr<std::unique_ptr<Compiler>> compiler = MakeNvrtcCompiler();
#if defined(TUNE_COUNTING_RUNNER)
    absl::StatusOr<std::unique_ptr<Runner>> runner = MakeCountingRunner(0);
#else
    absl::StatusOr<std::unique_ptr<Runner>> runner = MakeRunner(0);
#endif
    if (!runner.ok()) {
      shared().why_not = std::string(runner.status().message());
      return;
    }
    shared().compiler = std::move(compiler).value();
    shared().runner = std::move(runner).value();
  }

  void SetUp() override {
    if (shared().runner == nullptr) GTEST_SKIP() << "needs a GPU: " << shared().why_not;
  }

  Runner& runner() { return *shared().runner; }
  Compiler& compiler() { return *shared().compiler; }
  int sm() { return std::atoi(runner().info().target.c_str() + 3); }

  std::string CompileText(const std::string& text, const std::string& entry) {
    CompilePlan plan;
    plan.target = runner().info().target;
    plan.source_name = "test.cu";
    plan.source_text = text;
    plan.entries = {entry};
    absl::StatusOr<Artifact> variant = compiler().Compile(plan);
    EXPECT_TRUE(variant.ok()) << variant.status();
    EXPECT_EQ(variant->outcome, Outcome::kOk) << variant->log;
    return variant->binary;
  }

  static BufferPlan Buffer(const std::string& name, DType dtype, int64_t count, Role role) {
    BufferPlan buffer;
    buffer.name = name;
    buffer.dtype = dtype;
    buffer.count = count;
    buffer.role = role;
    return buffer;
  }

  // y = 2 x, float to float, `count` elements; the reference writes double.
  absl::Status PrepareDoubling(int64_t count) {
    count_ = count;
    ProblemPlan plan;
    plan.buffers = {Buffer("x", DType::kF32, count, Role::kInput),
                    Buffer("y", DType::kF32, count, Role::kOutput)};
    plan.reference.steps = {
        {.launch = Launch1d("reference", count, 256),
         .args = {plan.buffers[0], Buffer("y", DType::kF64, count, Role::kOutput),
                  ScalarPlan{"n", DType::kI64, Value(count)}}}};
    plan.tolerances = {{DType::kF32, {1e-6, 1e-6}}};
    const std::string binary = CompileText(R"(
extern "C" __global__ void reference(const float* x, double* y, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0 * x[i];
})",
                                           "reference");
    return runner().Prepare(plan, binary, /*seed=*/7);
  }

  static LaunchPlan Launch1d(const std::string& entry, int64_t count, int64_t threads) {
    LaunchPlan launch;
    launch.entry = entry;
    launch.grid = {(count + threads - 1) / threads, 1, 1};
    launch.block = {threads, 1, 1};
    return launch;
  }

  // A variant of the doubling problem: `body` is the kernel's, with x, y, n and i in scope.
  RunRequest Doubling(const std::string& body, const std::string& before = "") {
    RunRequest request;
    request.program.binary = CompileText(before + R"(
extern "C" __global__ void variant(float* x, float* y, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
)" + body + "\n}",
                                         "variant");
    request.program.steps = {{.launch = Launch1d("variant", count_, 256),
                              .args = {Buffer("x", DType::kF32, count_, Role::kInput),
                                       Buffer("y", DType::kF32, count_, Role::kOutput),
                                       ScalarPlan{"n", DType::kI64, Value(count_)}}}};
    return request;
  }

  RunReport Run(const RunRequest& request) {
    absl::StatusOr<RunReport> report = runner().Run(request);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? std::move(report).value() : RunReport();
  }

  static double Median(std::vector<double> samples) {
    if (samples.empty()) return 0;
    std::sort(samples.begin(), samples.end());
    return samples[samples.size() / 2];
  }

  // The body of a correct variant.
  static constexpr char kGood[] = "if (i < n) y[i] = 2.0f * x[i];";

  int64_t count_ = 0;

 private:
  struct Shared {
    std::unique_ptr<Compiler> compiler;
    std::unique_ptr<Runner> runner;
    std::string why_not;
  };
  // Never freed: a test that loses the context ends its process.
  static Shared& shared() {
    static auto* shared = new Shared;
    return *shared;
  }
};

}  // namespace tune::cuda
