// SPDX-License-Identifier: Apache-2.0
// Every config of the examples compiles for GPUs of three generations, without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tuner/device/example.h"
#include "tuner/device/cuda/nvrtc_compiler.h"
#include "tuner/device/program_checks.h"

namespace tune::cuda {
namespace {

using ::testing::HasSubstr;

class NvrtcExamples : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto compiler = MakeNvrtcCompiler();
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    compiler_ = *std::move(compiler);
  }

  void Compile(ProgramPlan program, const std::string& what) {
    Artifact all;
    for (size_t unit = 0; unit <= program.compile.more.size(); ++unit) {
      Artifact artifact = compiler_->Compile(PlanOfUnit(program.compile, unit)).value();
      ASSERT_EQ(artifact.outcome, Outcome::kOk) << what << ": " << artifact.log;
      EXPECT_THAT(artifact.binary, HasSubstr("ELF"));
      for (EntryFacts& entry : artifact.entries) {
        entry.unit = static_cast<int>(unit);
        all.entries.push_back(entry);
      }
      for (SymbolFacts& symbol : artifact.symbols) {
        symbol.unit = static_cast<int>(unit);
        all.symbols.push_back(symbol);
      }
    }
    const absl::Status fits = FitSteps(all, program);
    EXPECT_TRUE(fits.ok()) << what << ": " << fits;
    for (const StepPlan& step : program.steps) {
      EXPECT_EQ(step.launch.entry.find('<'), std::string::npos) << step.launch.entry;
    }
    for (const SymbolPlan& symbol : program.symbols) EXPECT_FALSE(symbol.variable.empty());
  }

  std::unique_ptr<Compiler> compiler_;
};

TEST_P(NvrtcExamples, CompileInTheirDefaultAndTheirLastConfig) {
  const absl::StatusOr<std::shared_ptr<const Kernel>> kernel = ReadExample(GetParam());
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  for (const char* target : {"sm_80", "sm_90a", "sm_100"}) {
    const TargetTraits traits = TargetTraitsFor(target).value();
    const Problem problem = (*kernel)->MakeProblem({}, "", target).value();
    const ProblemPlan plan = (*kernel)->PlanProblem(problem, traits).value();
    if (!plan.reference.steps.empty()) Compile(plan.reference, "reference");
    if (!plan.checker.steps.empty()) Compile(plan.checker, "checker");
    const std::vector<Config> configs = ConfigsOf(**kernel, problem, traits);
    ASSERT_FALSE(configs.empty());
    for (const Config& config :
         {(*kernel)->DefaultConfig(problem, traits).value(), configs.back()}) {
      Compile((*kernel)->PlanProgram(problem, traits, config).value(), ToText(config));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, NvrtcExamples, testing::ValuesIn(kExamples));

}  // namespace
}  // namespace tune::cuda
