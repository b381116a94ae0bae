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
  // Shared by the process: starting them takes longer than most tests.
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
    plan.entries = {entry};
    return plan;
  }

  static std::string Compile(const CompilePlan& plan) {
    absl::StatusOr<Artifact> artifact = compiler_->Compile(plan);
    EXPECT_TRUE(artifact.ok()) << artifact.status();
    if (!artifact.ok()) return "";
    EXPECT_EQ(artifact->outcome, Outcome::kOk) << artifact->log;
    return artifact->binary;
  }

  // Buffers are the args that are buffers; the reference has the same args and launch.
  absl::Status Prepare(const std::string& entry, const std::string& text, const LaunchPlan& launch,
                       const std::vector<ArgPlan>& args) {
    ProblemPlan plan;
    for (const ArgPlan& arg : args) {
      if (const auto* buffer = std::get_if<BufferPlan>(&arg)) plan.buffers.push_back(*buffer);
    }
    plan.reference = {Source(entry, text), {Step(entry, launch, args)}};
    plan.tolerances = {{DType::kF32, {1e-5, 1e-6}}};
    args_ = args;
    return runner_->Prepare(plan, Compile(plan.reference.compile), /*seed=*/7);
  }

  RunReport Run(const std::string& entry, const std::string& text, const LaunchPlan& launch) {
    return Run({.steps = {Step(entry, launch, args_)}, .binary = Compile(Source(entry, text))});
  }

  RunReport Run(const Program& program) {
    absl::StatusOr<RunReport> report = runner_->Run({.program = program, .policy = policy_});
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : RunReport();
  }

  static StepPlan Step(const std::string& entry, LaunchPlan launch, std::vector<ArgPlan> args) {
    launch.entry = entry;
    return {.launch = std::move(launch), .args = std::move(args)};
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
