// SPDX-License-Identifier: Apache-2.0
// Every config of the examples computes the right results on the CPU device.
#include <gtest/gtest.h>

#include "server/worker/compile_units.h"
#include "tests/tuner/device/cpu/runner_fixture.h"
#include "tests/tuner/device/example.h"
#include "tuner/device/program_checks.h"

namespace tune::cpu {
namespace {

class ExamplesTest : public RunnerTest {
 protected:
  // Compiled and bound to what came of it.
  static Program Made(ProgramPlan plan) {
    if (plan.steps.empty()) return {};
    Artifact artifact = server::CompileUnits(*compiler_, plan.compile).value();
    EXPECT_EQ(artifact.outcome, Outcome::kOk) << artifact.log;
    const absl::Status fits = FitSteps(artifact, plan);
    EXPECT_TRUE(fits.ok()) << fits;
    return WithBinary(plan, std::move(artifact.binary));
  }

  void RunAll(const Kernel& kernel) {
    const TargetTraits traits = TargetTraitsFor("cpu").value();
    const Problem problem = kernel.MakeProblem({}, "", "cpu").value();
    ProblemPlan plan = kernel.PlanProblem(problem, traits).value();
    const Program reference = Made(plan.reference);
    plan.reference.steps = reference.steps;
    plan.reference.symbols = reference.symbols;
    const Program checker = Made(plan.checker);
    plan.checker.steps = checker.steps;
    plan.checker_binary = checker.binary;
    const absl::Status prepared = runner_->Prepare(plan, reference.binary, /*seed=*/7);
    ASSERT_TRUE(prepared.ok()) << prepared;
    for (const Config& config : ConfigsOf(kernel, problem, traits)) {
      ProgramPlan program = kernel.PlanProgram(problem, traits, config).value();
      const RunReport report = Run(Made(std::move(program)));
      EXPECT_EQ(report.outcome, Outcome::kOk) << ToText(config) << ": " << report.message;
    }
  }
};

TEST_F(ExamplesTest, AreRightInEveryConfig) {
  for (const char* name : kExamples) {
    SCOPED_TRACE(name);
    const absl::StatusOr<std::shared_ptr<const Kernel>> kernel = ReadExample(name);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    if ((*kernel)->RunsOn("cpu")) RunAll(**kernel);
  }
}

TEST_F(ExamplesTest, ASymbolThatIsNotFilledIsSeen) {
  const std::shared_ptr<const Kernel> kernel = ReadExample("convolve/convolve").value();
  const TargetTraits traits = TargetTraitsFor("cpu").value();
  const Problem problem = kernel->MakeProblem({{"n", 1000}}, "f32", "cpu").value();
  ProblemPlan plan = kernel->PlanProblem(problem, traits).value();
  ASSERT_EQ(plan.reference.symbols.size(), 1u);
  const Program reference = Made(plan.reference);
  plan.reference.steps = reference.steps;
  plan.reference.symbols = reference.symbols;
  ASSERT_TRUE(runner_->Prepare(plan, reference.binary, /*seed=*/7).ok());
  const Config config = kernel->DefaultConfig(problem, traits).value();
  Program program = Made(kernel->PlanProgram(problem, traits, config).value());
  EXPECT_EQ(Run(program).outcome, Outcome::kOk);
  program.symbols.clear();
  EXPECT_EQ(Run(program).outcome, Outcome::kWrongResult);
}

}  // namespace
}  // namespace tune::cpu
