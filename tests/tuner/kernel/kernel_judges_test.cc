// SPDX-License-Identifier: Apache-2.0
// The judges of a kernel's results: checkers, and references that run on the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_replace.h"
#include "server/wire/spec.h"
#include "tuner/kernel/kernel.h"
#include "tuner/tune_check.h"

namespace tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kJudgesSpec[] = R"spec(name: "sort"
source: "sort.cu"
headers: ["more.cu", "helper.py"]
entry: "sort"
dims { name: "rows" default_value: 2 min: 1 }
dims { name: "n" default_value: 8 min: 1 }
dtypes: "bf16"
params { name: "B" values: "[32, 64]" default_value: "32" }
args { name: "x" buffer { dtype: "dtype" shape: ["rows", "n"] role: ROLE_INPUT } }
args { name: "y" buffer { dtype: "dtype" shape: ["rows", "n"] role: ROLE_OUTPUT } }
args { name: "places" buffer { dtype: "i32" shape: "n" role: ROLE_OUTPUT } }
args { name: "part" buffer { dtype: "f32" shape: "B" role: ROLE_SCRATCH } }
args { name: "n" scalar { dtype: "i32" value: "n" } }
launch { grid: "1" block: "B" }
reference { source: "right.py" entry: "right" }
checker { entry: "check" launch { grid: "rows" block: "B" } }
)spec";

absl::StatusOr<std::shared_ptr<const Kernel>> MakeJudged(
    const std::vector<std::pair<std::string, std::string>>& edits = {}) {
  std::string text = kJudgesSpec;
  for (const auto& [from, to] : edits) {
    EXPECT_NE(text.find(from), std::string::npos) << from;
    text = absl::StrReplaceAll(text, {{from, to}});
  }
  return server::ReadKernel("sort.textproto", text,
                            {{"sort.cu", "// nothing"},
                             {"more.cu", "// nothing"},
                             {"helper.py", "A = 1"},
                             {"right.py", "import helper"},
                             {"check.cu", "// nothing"}});
}

ProblemPlan PlanOf(const Kernel& kernel) {
  const TargetTraits traits = TargetTraitsFor("sm_90a").value();
  return kernel.PlanProblem(kernel.MakeProblem({}, "", "sm_90a").value(), traits).value();
}

std::vector<std::string> NamesOf(const std::vector<ArgPlan>& args) {
  std::vector<std::string> names;
  for (const ArgPlan& arg : args) {
    names.push_back(std::visit([](const auto& held) { return held.name; }, arg));
  }
  return names;
}

TEST(KernelJudgesTest, AReferenceOnTheHostIsACall) {
  const ProblemPlan plan = PlanOf(**MakeJudged());
  EXPECT_THAT(plan.reference.steps, IsEmpty());
  const CompilePlan& reference = plan.host_reference;
  EXPECT_EQ(reference.language, Language::kNumpy);
  EXPECT_EQ(reference.target, "cpu");
  EXPECT_THAT(reference.entries, ElementsAre("right"));
  ASSERT_EQ(reference.headers.size(), 1u);
  EXPECT_EQ(reference.headers[0].name, "helper.py");
  std::vector<std::string> names;
  for (const BufferPlan& buffer : reference.call.buffers) names.push_back(buffer.name);
  EXPECT_THAT(names, ElementsAre("x", "y", "places"));
  EXPECT_THAT(reference.call.buffers[0].shape, ElementsAre(2, 8));
  names.clear();
  for (const ScalarPlan& scalar : reference.call.scalars) names.push_back(scalar.name);
  EXPECT_THAT(names, ElementsAre("n", "rows"));  // the arg goes before the dim of its name
  EXPECT_EQ(reference.call.wide, DType::kF64);
}

TEST(KernelJudgesTest, ACheckerTakesAllButScratchAndSaysItsFaultsLast) {
  const ProblemPlan plan = PlanOf(**MakeJudged());
  ASSERT_EQ(plan.checker.steps.size(), 1u);
  EXPECT_THAT(NamesOf(plan.checker.steps[0].args),
              ElementsAre("x", "y", "places", "n", kFaultsBuffer));
  EXPECT_EQ(plan.checker.steps[0].launch.grid[0], 2);
  EXPECT_EQ(std::get<BufferPlan>(plan.checker.steps[0].args.back()).count,
            static_cast<int64_t>(sizeof(TuneFaults)));
  EXPECT_EQ(plan.checker.compile.headers.back().name, "tune_check.h");
}

TEST(KernelJudgesTest, ACheckerSeesWhatTheReferenceWroteInItsType) {
  const ProblemPlan plan = PlanOf(**MakeJudged(
      {{"checker { entry: \"check\"",
        "checker { source: \"check.cu\" entry: \"check\" args: [\"y\", \"reference.y\", "
        "\"reference.places\"]"}}));
  const std::vector<ArgPlan>& args = plan.checker.steps[0].args;
  EXPECT_THAT(NamesOf(args), ElementsAre("y", "reference.y", "reference.places", kFaultsBuffer));
  EXPECT_EQ(std::get<BufferPlan>(args[0]).dtype, DType::kBF16);
  EXPECT_EQ(std::get<BufferPlan>(args[1]).dtype, DType::kF64);
  EXPECT_EQ(std::get<BufferPlan>(args[2]).dtype, DType::kI32);
  EXPECT_EQ(plan.checker.compile.source_name, "check.cu");
}

TEST(KernelJudgesTest, ACheckerNeedsNoReference) {
  const ProblemPlan plan =
      PlanOf(**MakeJudged({{"reference { source: \"right.py\" entry: \"right\" }", ""}}));
  EXPECT_THAT(plan.host_reference.entries, IsEmpty());
  EXPECT_EQ(plan.checker.steps.size(), 1u);
}

TEST(KernelJudgesTest, MistakesAreNamed) {
  const std::string checker = "checker { entry: \"check\"";
  const struct {
    std::string from;
    std::string to;
    const char* message;
  } kCases[] = {
      {checker, "tolerances { dtype: \"bf16\" rtol: 0.1 }\n" + checker,
       "the checker judges the outputs: leave tolerances out"},
      {checker, checker + " args: \"z\"", "checker.args[0]: no arg is called 'z'"},
      {checker, checker + " args: \"part\"", "a checker takes inputs, outputs and scalars"},
      {checker, checker + " args: \"reference.x\"", "the reference writes no 'x'"},
      {checker, checker + " source: \"lost.cu\"", "checker.source: file 'lost.cu' was not given"},
      {"block: \"B\" } }", "block: \"B\" cluster: \"2\" } }", "the checker runs without clusters"},
      {"entry: \"right\" }", "entry: \"right\" launch { grid: \"1\" } }",
       "is called once, without"},
      {"entry: \"right\" }", "entry: \"right\" args: \"x\" }", "say by their names what it takes"},
      {"entry: \"right\" }", "entry: \"a b\" }", "'a b' is no function's name"},
      {"entry: \"right\" }", "entry: \"right\" dtype: \"f16\" }", "'f16' is not f32 or f64"},
      {"entry: \"sort\"", "language: NUMPY entry: \"sort\"", "only a reference can be in NumPy"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(std::string(MakeJudged({{c.from, c.to}}).status().message()), HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace tune
