// SPDX-License-Identifier: Apache-2.0
// Runs the shipped kernels on the CPU device, at the small and odd problems that their specs name:
// the default config and others drawn at random, as many as TUNE_TEST_VARIANTS says in all, at as
// many problems of a kernel as TUNE_TEST_PROBLEMS says; everything with TUNE_TEST_ALL_VARIANTS=1.
// Built with the sanitizers' runtimes, it runs kernels that TUNE_CPU_SANITIZE=1 has had
// instrumented.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/catalogue.h"
#include "server/wire/spec.h"
#include "tuner/device/cpu/cpu_compiler.h"
#include "tuner/device/cpu/cpu_runner.h"
#include "tuner/kernel/kernel.h"
#include "tuner/strategies/strategy.h"

namespace tune {
namespace {

struct CheckedProblem {
  std::shared_ptr<const Kernel> kernel;
  Problem problem;
};

// The number that a variable has, unless everything is asked for; else `all`.
size_t LimitOf(const char* variable, size_t all) {
  const char* text = std::getenv(variable);
  if (text == nullptr || std::getenv("TUNE_TEST_ALL_VARIANTS") != nullptr) return all;
  return std::min(all, static_cast<size_t>(std::strtoul(text, nullptr, 10)));
}

std::vector<CheckedProblem> ProblemsOf(const CatalogueEntry& entry) {
  auto kernel = server::ReadKernel(entry.spec_name, entry.spec_text, entry.files);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  std::vector<CheckedProblem> problems;
  if (!kernel.ok() || !(*kernel)->RunsOn("cpu")) return problems;
  EXPECT_FALSE((*kernel)->spec().checks.empty()) << entry.name << " names no problems to check";
  for (const CheckProblem& check : (*kernel)->spec().checks) {
    auto problem = (*kernel)->MakeProblem(check.dims, check.dtype, "cpu");
    EXPECT_TRUE(problem.ok()) << problem.status();
    if (problem.ok()) problems.push_back({*kernel, *problem});
  }
  // The last are the oddest.
  problems.erase(problems.begin(), problems.end() - LimitOf("TUNE_TEST_PROBLEMS", problems.size()));
  return problems;
}

// The configs to run: the default first, then others in a random order that the seed repeats.
std::vector<Config> ConfigsOf(const CheckedProblem& checked, const TargetTraits& traits) {
  auto space = checked.kernel->MakeSpace(checked.problem, traits);
  EXPECT_TRUE(space.ok()) << space.status();
  if (!space.ok()) return {};
  const size_t limit = LimitOf("TUNE_TEST_VARIANTS", space->size());
  std::optional<uint64_t> first;
  auto default_config = checked.kernel->DefaultConfig(checked.problem, traits);
  if (default_config.ok()) first = space->IndexOf(*default_config);
  auto strategy = MakeStrategy("random", *space, {.seed = 1, .first = first});
  EXPECT_TRUE(strategy.ok()) << strategy.status();
  std::vector<Config> configs;
  for (auto index = (*strategy)->Ask(); index && configs.size() < limit;
       index = (*strategy)->Ask()) {
    configs.push_back(space->At(*index));
  }
  return configs;
}

std::vector<Artifact> CompileAll(const std::vector<CompilePlan>& plans) {
  std::vector<Artifact> compiled(plans.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    auto compiler = cpu::MakeCompiler();
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    for (size_t i = next++; i < plans.size(); i = next++) {
      auto variant = (*compiler)->Compile(plans[i]);
      ASSERT_TRUE(variant.ok()) << variant.status();
      compiled[i] = *std::move(variant);
    }
  };
  std::vector<std::future<void>> workers;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
    workers.push_back(std::async(std::launch::async, work));
  }
  for (auto& worker : workers) worker.get();
  return compiled;
}

void RunVariants(const CheckedProblem& checked, Runner& runner) {
  const TargetTraits traits = *TargetTraitsFor("cpu");
  auto plan = checked.kernel->PlanProblem(checked.problem, traits);
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<Config> configs = ConfigsOf(checked, traits);
  ASSERT_FALSE(configs.empty());
  std::vector<CompilePlan> compiles = {plan->reference.compile};
  std::vector<ProgramPlan> variants;
  for (const Config& config : configs) {
    auto variant = checked.kernel->PlanProgram(checked.problem, traits, config);
    ASSERT_TRUE(variant.ok()) << variant.status();
    compiles.push_back(variant->compile);
    variants.push_back(*std::move(variant));
  }
  const std::vector<Artifact> compiled = CompileAll(compiles);
  ASSERT_EQ(compiled[0].outcome, Outcome::kOk) << compiled[0].log;
  const absl::Status prepared = runner.Prepare(*plan, compiled[0].binary, 1);
  ASSERT_TRUE(prepared.ok()) << prepared;
  for (size_t i = 0; i < variants.size(); ++i) {
    SCOPED_TRACE(ToText(configs[i]));
    ASSERT_EQ(compiled[i + 1].outcome, Outcome::kOk) << compiled[i + 1].log;
    auto report = runner.Run({{variants[i].steps, compiled[i + 1].binary},
                              {.samples_min = 3, .samples_max = 3, .seconds_max = 0.01}});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->outcome, Outcome::kOk) << report->message;
  }
}

TEST(CatalogueOnCpu, EveryVariantIsRight) {
  auto catalogue = LoadCatalogue();
  ASSERT_TRUE(catalogue.ok()) << catalogue.status();
  auto runner = cpu::MakeRunner();
  ASSERT_TRUE(runner.ok()) << runner.status();
  int problems = 0;
  for (const CatalogueEntry& entry : *catalogue) {
    for (const CheckedProblem& checked : ProblemsOf(entry)) {
      SCOPED_TRACE(entry.name + " " + ToText(checked.problem));
      RunVariants(checked, **runner);
      ++problems;
    }
  }
  EXPECT_GE(problems, 3);
}

}  // namespace
}  // namespace tune
