// SPDX-License-Identifier: Apache-2.0
// Kernels of several launches and of several files: what a spec may say of them, and what a config
// becomes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "server/wire/spec.h"
#include "tests/tuner/kernel/problems.h"
#include "tests/tuner/test_kernel.h"
#include "tuner/kernel/kernel.h"

namespace tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kSteps[] = R"spec(steps {
  name: "first" entry: "fill_scratch" args: ["x", "part", "n"] zero: "part"
  launch { grid: "rows" block: "THREADS" shared_bytes: "64" }
}
steps { entry: "scale" launch { grid: "1" block: "THREADS * 2" } when: "PATH == 'smem'" }
steps {
  entry: "scale" args: ["y", "part"]
  launch { grid: "chunks" block: "THREADS" shared_bytes: "128" }
  when: "PATH == 'regs'"
}
)spec";

// The test's spec with steps in the place of its entry and launch.
std::string StepsSpec(const std::string& steps = kSteps) {
  std::string text = absl::StrReplaceAll(
      TestSpecText(),
      {{"entry: \"scale\"\n", ""},
       {"args { name: \"a\"",
        "args { name: \"part\" buffer { dtype: \"f32\" shape: \"rows\" role: ROLE_SCRATCH } }\n"
        "args { name: \"a\""}});
  const size_t launch = text.find("launch {");
  return text.replace(launch, text.find("work {") - launch, steps);
}

absl::StatusOr<std::shared_ptr<const Kernel>> StepsKernel(const std::string& steps = kSteps) {
  return server::ReadKernel("scale.textproto", StepsSpec(steps), TestFiles());
}

std::vector<std::string> EntriesOf(const ProgramPlan& plan) {
  std::vector<std::string> entries;
  for (const StepPlan& step : plan.steps) entries.push_back(step.launch.entry);
  return entries;
}

TEST(KernelSteps, AConfigHasTheStepsWhoseConditionHolds) {
  const auto kernel = StepsKernel();
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const Problem problem = MakeProblem(**kernel, {{"cols", 4096}}, "f32", "sm_90a");
  Config config = (*kernel)->DefaultConfig(problem, Traits("sm_90a")).value();
  const ProgramPlan plan = (*kernel)->PlanProgram(problem, Traits("sm_90a"), config).value();
  EXPECT_THAT(EntriesOf(plan), ElementsAre("fill_scratch", "scale"));
  EXPECT_THAT(plan.compile.entries, ElementsAre("fill_scratch", "scale"));
  ASSERT_EQ(plan.steps[0].args.size(), 3u);
  EXPECT_EQ(Arg<BufferPlan>(plan.steps[0].args, 1).name, "part");
  EXPECT_EQ(Arg<ScalarPlan>(plan.steps[0].args, 2).name, "n");
  ASSERT_EQ(plan.steps[0].zero.size(), 1u);
  EXPECT_EQ(plan.steps[0].zero[0].name, "part");
  EXPECT_EQ(plan.steps[0].zero[0].count, 8192);
  ASSERT_EQ(plan.steps[1].args.size(), 2u) << "in the order of the step";
  EXPECT_EQ(Arg<BufferPlan>(plan.steps[1].args, 0).name, "y");
  EXPECT_THAT(plan.steps[1].zero, IsEmpty());
  EXPECT_EQ(DynamicSharedBytes(plan.steps), 128);

  for (auto& [name, value] : config.entries) {
    if (name == "PATH") value = std::string("smem");
  }
  const ProgramPlan other = (*kernel)->PlanProgram(problem, Traits("sm_90a"), config).value();
  EXPECT_THAT(EntriesOf(other), ElementsAre("fill_scratch", "scale"));
  EXPECT_EQ(other.steps[1].launch.block[0], 512);
  EXPECT_EQ(other.steps[1].args.size(), 7u) << "all of them";
  EXPECT_EQ((*kernel)->PlanProblem(problem, Traits("sm_90a"))->buffers.size(), 4u);
}

TEST(KernelSteps, LaunchesAlonePlannedAreThoseOfTheProgram) {
  const auto kernel = StepsKernel();
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const Problem problem = MakeProblem(**kernel, {{"cols", 4096}}, "f32", "sm_90a");
  const Space space = (*kernel)->MakeSpace(problem, Traits("sm_90a")).value();
  for (uint64_t i = 0; i < space.size(); ++i) {
    const Config config = space.At(i);
    const ProgramPlan plan = (*kernel)->PlanProgram(problem, Traits("sm_90a"), config).value();
    const auto launches = (*kernel)->PlanLaunches(problem, Traits("sm_90a"), config).value();
    ASSERT_EQ(launches.size(), plan.steps.size()) << ToText(config);
    for (size_t step = 0; step < launches.size(); ++step) {
      const LaunchPlan& whole = plan.steps[step].launch;
      const LaunchPlan& alone = launches[step];
      EXPECT_EQ(std::tie(alone.grid, alone.block, alone.cluster, alone.shared_bytes),
                std::tie(whole.grid, whole.block, whole.cluster, whole.shared_bytes));
    }
  }
}

TEST(KernelSteps, OnlyLaunchesThatAConfigHasMustFit) {
  const auto kernel = StepsKernel();
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const Problem problem = MakeProblem(**kernel, {{"cols", 4096}}, "f32", "sm_90a");
  const Space space = (*kernel)->MakeSpace(problem, Traits("sm_90a")).value();
  int64_t widest_regs = 0;
  int64_t widest_smem = 0;
  for (uint64_t i = 0; i < space.size(); ++i) {
    const Config config = space.At(i);
    const ProgramPlan plan = (*kernel)->PlanProgram(problem, Traits("sm_90a"), config).value();
    const bool smem = absl::StrContains(ToText(config), "PATH=smem");
    int64_t& widest = smem ? widest_smem : widest_regs;
    widest = std::max(widest, plan.steps[0].launch.block[0]);
  }
  EXPECT_EQ(widest_regs, 1024);
  EXPECT_EQ(widest_smem, 512) << "twice as many threads in its second step";
}

TEST(KernelSteps, SomeStepMustRun) {
  std::string never = "THREADS > 5000";  // together the conditions are too long for an expression
  while (never.size() < 3000) never += " or THREADS > 5000";
  const std::string step = "steps { entry: \"scale\" launch { grid: \"1\" block: \"1\" } when: \"";
  const auto kernel = StepsKernel(step + never + "\" }\n" + step + never + "\" }\n");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const Problem problem = MakeProblem(**kernel, {}, "f32", "sm_90a");
  EXPECT_THAT(std::string((*kernel)->MakeSpace(problem, Traits("sm_90a")).status().message()),
              HasSubstr("'steps: one of them runs'"));
}

TEST(KernelSteps, NamesWhatIsWrong) {
  const std::string step = "steps { entry: \"scale\" launch { grid: \"1\" block: \"1\" } ";
  std::string many;
  for (int i = 0; i < 17; ++i) many += step + "}\n";
  const std::pair<std::string, std::string> cases[] = {
      {step + "args: \"z\" }\n", "steps[0].args[0]: no arg is called 'z'"},
      {step + "zero: \"y\" }\n", "steps[0].zero[0]: no buffer of ROLE_SCRATCH is called 'y'"},
      {step + "when: \"ROWS\" }\n", "steps[0].when: unknown name 'ROWS'"},
      {step + "args: \"x_map\" }\n", "steps[0].args[0]: tensor map 'x_map' needs its buffer 'x'"},
      {step + "name: \"a\" }\n" + step + "name: \"a\" }\n",
       "steps[1].name: two steps are called 'a'"},
      {"steps { entry: \"a b\" launch { grid: \"1\" block: \"1\" } }\n",
       "steps[0].entry: 'a b' is neither a kernel's name nor an instance of a template such as "
       "'softmax<THREADS, float>'"},
      {"steps { entry: \"scale\" }\n", "steps[0].launch: missing"},
      {many, "steps[16]: one too many; the most is 16"},
      {step + "}\nentry: \"scale\"\n", "entry: each of the steps has its own"},
      {step + "}\nlaunch { grid: \"1\" block: \"1\" }\n", "launch: each of the steps has its own"},
  };
  for (const auto& [steps, message] : cases) {
    const absl::Status status = StepsKernel(steps).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << steps;
    EXPECT_THAT(std::string(status.message()), testing::StartsWith("scale.textproto:"));
  }
}

TEST(KernelSources, AParamMayChooseTheFile) {
  const std::string text = absl::StrReplaceAll(
      TestSpecText(),
      {{"headers: \"vec.h\"",
        "headers: \"vec.h\" source_choice: \"'vec.h' if VEC == 4 else 'scale.cu'\""}});
  const auto kernel = server::ReadKernel("scale.textproto", text, TestFiles());
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const Problem problem = MakeProblem(**kernel, {}, "f32", "sm_90a");
  const Space space = (*kernel)->MakeSpace(problem, Traits("sm_90a")).value();
  std::set<std::string> chosen;
  for (uint64_t i = 0; i < space.size(); ++i) {
    const ProgramPlan plan = (*kernel)->PlanProgram(problem, Traits("sm_90a"), space.At(i)).value();
    const bool wide = absl::StrContains(ToText(space.At(i)), "VEC=4");
    EXPECT_EQ(plan.compile.source_name, wide ? "vec.h" : "scale.cu");
    EXPECT_EQ(plan.compile.headers.size(), wide ? 0u : 1u);
    chosen.insert(plan.compile.source_name);
  }
  EXPECT_EQ(chosen.size(), 2u);
  EXPECT_EQ((*kernel)->PlanProblem(problem, Traits("sm_90a"))->reference.compile.source_name,
            "scale.cu");
}

TEST(KernelSources, TheReferenceMayHaveAFileAndArgsOfItsOwn) {
  const std::string text = absl::StrReplaceAll(
      TestSpecText(),
      {{"entry: \"scale_reference\"",
        "entry: \"scale_reference\" source: \"plain.cu\" args: [\"y\", \"count\"]"}});
  std::map<std::string, std::string> files = TestFiles();
  EXPECT_THAT(std::string(server::ReadKernel("scale.textproto", text, files).status().message()),
              HasSubstr("reference.source: file 'plain.cu' was not given"));
  files["plain.cu"] = "plain";
  const auto kernel = server::ReadKernel("scale.textproto", text, files);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const Problem problem = MakeProblem(**kernel, {}, "f32", "sm_90a");
  const ProblemPlan plan = (*kernel)->PlanProblem(problem, Traits("sm_90a")).value();
  EXPECT_EQ(plan.reference.compile.source_text, "plain");
  ASSERT_EQ(plan.reference.steps.at(0).args.size(), 2u);
  EXPECT_EQ(plan.buffers.size(), 3u) << "a reference need not take all";
  EXPECT_EQ((*kernel)->files().count("plain.cu"), 1u) << "part of the kernel";
}

}  // namespace
}  // namespace tune
