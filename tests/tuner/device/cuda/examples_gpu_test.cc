// SPDX-License-Identifier: Apache-2.0
// Every config of the examples computes the right results on a GPU: templates, symbols, units,
// cooperative and overlapping launches, sparse fills.
#include "tests/tuner/device/cuda/gpu_fixture.h"
#include "tests/tuner/device/example.h"
#include "tuner/bundle.h"
#include "tuner/device/program_checks.h"

namespace tune::cuda {
namespace {

using ::testing::HasSubstr;

class ExamplesOnGpu : public GpuTest {
 protected:
  // All units compiled, and bound to what came of them.
  Program Made(ProgramPlan plan) {
    if (plan.steps.empty()) return {};
    Artifact all;
    std::vector<std::string> binaries;
    for (size_t unit = 0; unit <= plan.compile.more.size(); ++unit) {
      Artifact artifact = compiler().Compile(PlanOfUnit(plan.compile, unit)).value();
      EXPECT_EQ(artifact.outcome, Outcome::kOk) << artifact.log;
      binaries.push_back(artifact.binary);
      for (EntryFacts& entry : artifact.entries) {
        entry.unit = static_cast<int>(unit);
        all.entries.push_back(entry);
      }
      for (SymbolFacts& symbol : artifact.symbols) {
        symbol.unit = static_cast<int>(unit);
        all.symbols.push_back(symbol);
      }
    }
    const absl::Status fits = FitSteps(all, plan);
    EXPECT_TRUE(fits.ok()) << fits;
    return WithBinary(plan, Bundle(binaries));
  }

  TargetTraits Traits() {
    TargetTraits traits = TargetTraitsFor(runner().info().target).value();
    traits.sm_count = runner().info().sm_count;
    return traits;
  }

  void Prepare(const Kernel& kernel, const Problem& problem) {
    ProblemPlan plan = kernel.PlanProblem(problem, Traits()).value();
    const Program reference = Made(plan.reference);
    plan.reference.steps = reference.steps;
    plan.reference.symbols = reference.symbols;
    const Program checker = Made(plan.checker);
    plan.checker.steps = checker.steps;
    plan.checker_binary = checker.binary;
    const absl::Status prepared = runner().Prepare(plan, reference.binary, /*seed=*/7);
    ASSERT_TRUE(prepared.ok()) << prepared;
  }

  RunReport RunConfig(const Kernel& kernel, const Problem& problem, const Config& config) {
    RunRequest request;
    request.program = Made(kernel.PlanProgram(problem, Traits(), config).value());
    request.policy = {.samples_min = 3, .samples_max = 10};
    return Run(request);
  }
};

TEST_F(ExamplesOnGpu, AreRightInTheirFirstConfigs) {
  for (const char* name : kExamples) {
    SCOPED_TRACE(name);
    const std::shared_ptr<const Kernel> kernel = ReadExample(name).value();
    const Problem problem = kernel->MakeProblem({}, "", runner().info().target).value();
    Prepare(*kernel, problem);
    std::vector<Config> configs = ConfigsOf(*kernel, problem, Traits());
    ASSERT_FALSE(configs.empty());
    if (configs.size() > 8) configs.resize(8);
    for (const Config& config : configs) {
      const RunReport report = RunConfig(*kernel, problem, config);
      // A cooperative grid may not fit, which is told.
      if (report.outcome == Outcome::kInvalidConfig) {
        EXPECT_THAT(report.message, HasSubstr("a cooperative grid of"));
        continue;
      }
      EXPECT_EQ(report.outcome, Outcome::kOk) << ToText(config) << ": " << report.message;
      EXPECT_FALSE(report.samples_ns.empty());
    }
  }
}

TEST_F(ExamplesOnGpu, ACooperativeGridThatDoesNotFitIsInvalid) {
  const std::shared_ptr<const Kernel> kernel = ReadExample("cooperative/normalize").value();
  const Problem problem = kernel->MakeProblem({}, "", runner().info().target).value();
  Prepare(*kernel, problem);
  const RunReport report = RunConfig(
      *kernel, problem, {.entries = {{"THREADS", int64_t{1024}}, {"PER_SM", int64_t{8}}}});
  EXPECT_EQ(report.outcome, Outcome::kInvalidConfig);
  EXPECT_THAT(report.message, HasSubstr("let the grid use sm_count"));
}

}  // namespace
}  // namespace tune::cuda
