// SPDX-License-Identifier: Apache-2.0
// Compiles small kernels with the CPU device's compiler and runs them with its runner.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tuner/device/compiler.h"
#include "tuner/device/cpu/cpu_compiler.h"
#include "tuner/device/cpu/cpu_runner.h"
#include "tuner/device/runner.h"
#include "tuner/plan.h"

namespace tune::cpu {

class RunnerTest : public testing::Test {
 protected:
  // One of each in a process: starting them takes longer than most tests.
  static void SetUpTestSuite() {
    absl::StatusOr<std::unique_ptr<Compiler>> compiler = MakeCompiler();
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    absl::StatusOr<std::unique_ptr<Runner>> runner = MakeRunner();
    ASSERT_TRUE(runner.ok()) << runner.status();
    compiler_ = *std::move(compiler);
    runner_ = *std::move(runner);
  }
  static void TearDownTestSuite() {
    runner_.reset();
    compiler_.reset();
  }

  static BufferPlan Buffer(const std::string& name, int64_t count, Role role,
                           DType dtype = DType::kF32, Fill fill = {}) {
    return {name, dtype, count, role, fill};
  }
  static ScalarPlan Int(const std::string& name, int64_t value) {
    return {name, DType::kI32, Value(value)};
  }

  static CompilePlan Source(const std::string& entry, const std::string& text) {
    CompilePlan plan;
    plan.target = "cpu";
    plan.source_name = entry + ".cu";
    plan.source_text = text;
    plan.entry = entry;
    return plan;
  }

  static std::string Compile(const CompilePlan& plan) {
    absl::StatusOr<CompiledVariant> variant = compiler_->Compile(plan);
    EXPECT_TRUE(variant.ok()) << variant.status();
    if (!variant.ok()) return "";
    EXPECT_EQ(variant->outcome, Outcome::kOk) << variant->log;
    return variant->binary;
  }

  // Buffers are the args that are buffers; the reference has the same args and launch.
  absl::Status Prepare(const std::string& entry, const std::string& text, const LaunchPlan& launch,
                       const std::vector<ArgPlan>& args) {
    ProblemPlan plan;
    for (const ArgPlan& arg : args) {
      if (const auto* buffer = std::get_if<BufferPlan>(&arg)) plan.buffers.push_back(*buffer);
    }
    plan.reference_compile = Source(entry, text);
    plan.reference_launch = launch;
    plan.reference_args = args;
    plan.tolerances = {{DType::kF32, {1e-5, 1e-6}}};
    args_ = args;
    return runner_->Prepare(plan, Compile(plan.reference_compile), /*seed=*/7);
  }

  RunReport Run(const std::string& entry, const std::string& text, const LaunchPlan& launch) {
    RunRequest request;
    request.variant.compile = Source(entry, text);
    request.variant.launch = launch;
    request.variant.args = args_;
    request.binary = Compile(request.variant.compile);
    request.policy = policy_;
    absl::StatusOr<RunReport> report = runner_->Run(request);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : RunReport();
  }

  static LaunchPlan Grid(int64_t blocks, int64_t threads, int64_t shared_bytes = 0) {
    LaunchPlan plan;
    plan.grid = {blocks, 1, 1};
    plan.block = {threads, 1, 1};
    plan.shared_bytes = shared_bytes;
    return plan;
  }

  static inline std::unique_ptr<Compiler> compiler_;
  static inline std::unique_ptr<Runner> runner_;
  std::vector<ArgPlan> args_;
  SamplePolicy policy_ = {.samples_min = 3, .samples_max = 3};
};

}  // namespace tune::cpu
