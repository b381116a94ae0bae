// SPDX-License-Identifier: Apache-2.0
// Kernels written in Triton: what a spec may say of them, and what a config becomes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/str_replace.h"
#include "server/wire/spec.h"
#include "tuner/device/program_checks.h"
#include "tuner/kernel/kernel.h"

namespace tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr char kTritonSpec[] = R"spec(name: "scale"
language: TRITON
source: "scale.py"
headers: "parts.py"
entry: "scale"
dims { name: "n" default_value: 4096 min: 1 }
dtypes: ["bf16", "f32"]
params { name: "BLOCK" values: "[256, 1024]" default_value: "256" }
params { name: "KIND" values: "['plain', 'wide']" default_value: "'plain'" }
params { name: "num_warps" values: "[4, 8]" default_value: "4" }
defines { name: "HALF" value: "n / 2 > 4" }
defines { name: "num_stages" value: "2" }
args { name: "x" buffer { dtype: "dtype" shape: "n" role: ROLE_INPUT } }
args { name: "y" buffer { dtype: "f32" shape: "n" role: ROLE_OUTPUT } }
args { name: "n" scalar { dtype: "i32" value: "n" } }
args { name: "a" scalar { dtype: "f32" value: "0.5" } }
launch { grid: "ceil_div(n, BLOCK)" }
reference { source: "scale.cu" entry: "scale_reference" launch { grid: "1" block: "128" } }
)spec";

using Changes = std::map<std::string, std::string>;

absl::StatusOr<std::shared_ptr<const Kernel>> MakeScale(const Changes& changes = {}) {
  return server::ReadKernel(
      "scale.textproto", absl::StrReplaceAll(kTritonSpec, changes),
      {{"scale.py", "python with a KIND"}, {"parts.py", "more"}, {"scale.cu", "c++"}});
}

ProgramPlan PlanFor(const Kernel& kernel, int64_t n, const std::string& target = "sm_90a") {
  const TargetTraits traits = TargetTraitsFor(target).value();
  const Problem problem = kernel.MakeProblem({{"n", n}}, "", target).value();
  const Config config = kernel.DefaultConfig(problem, traits).value();
  return kernel.PlanProgram(problem, traits, config).value();
}

TEST(KernelTritonTest, ParamsAreConstantsAndOptions) {
  const auto kernel = MakeScale();
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const ProgramPlan program = PlanFor(**kernel, 4096);
  const CompilePlan& plan = program.compile;
  EXPECT_EQ(plan.language, Language::kTriton);
  EXPECT_THAT(plan.defines,
              ElementsAre(Pair("BLOCK", "256"), Pair("KIND", "'plain'"), Pair("HALF", "True")));
  // In full, whatever this version's defaults are.
  EXPECT_THAT(plan.options,
              ElementsAre("num_warps=4", "num_ctas=1", "num_stages=2", "enable_fp_fusion=True"));
  ASSERT_EQ(plan.headers.size(), 1u);
  EXPECT_EQ(plan.headers[0].name, "parts.py");
  EXPECT_THAT(plan.arguments,
              ElementsAre(ArgumentHint{"x", "*bf16", 16}, ArgumentHint{"y", "*fp32", 16},
                          ArgumentHint{"n", "i32", 16}, ArgumentHint{"a", "fp32"}));
  EXPECT_THAT(program.steps[0].launch.grid, ElementsAre(16, 1, 1));
}

// Each is compiled for the args that it takes.
TEST(KernelTritonTest, StepsAreUnitsOfTheirOwn) {
  const auto kernel = MakeScale(
      {{"entry: \"scale\"\n", ""},
       {"launch { grid: \"ceil_div(n, BLOCK)\" }\n",
        "steps { entry: \"scale\" args: [\"x\", \"y\", \"n\"] "
        "launch { grid: \"n // BLOCK\" } }\n"
        "steps { entry: \"again\" args: [\"y\"] source: \"parts.py\" launch { grid: \"2\" "
        "programmatic_dependent_launch: true } }\n"
        "steps { entry: \"scale\" args: [\"x\", \"y\", \"n\"] "
        "launch { grid: \"4\" cooperative: true } }\n"}});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const ProgramPlan program = PlanFor(**kernel, 4096);
  EXPECT_EQ(program.compile.arguments.size(), 3u);
  ASSERT_EQ(program.compile.more.size(), 1u) << "the third is the first again";
  EXPECT_EQ(program.compile.more[0].source_name, "parts.py");
  EXPECT_THAT(program.compile.more[0].arguments, ElementsAre(ArgumentHint{"y", "*fp32", 16}));
  EXPECT_EQ(PlanOfUnit(program.compile, 1).arguments, program.compile.more[0].arguments);
  EXPECT_EQ(program.steps[1].launch.unit, 1);
  EXPECT_TRUE(program.steps[1].launch.programmatic_dependent_launch);
  EXPECT_EQ(program.steps[2].launch.unit, 0);
  EXPECT_TRUE(program.steps[2].launch.cooperative);
}

TEST(KernelTritonTest, ADescriptorHasTheBlockOfTheConfig) {
  const Changes changes = {
      {"role: ROLE_INPUT }", "role: ROLE_INPUT tensor_descriptor { block_shape: \"BLOCK\" } }"}};
  const auto kernel = MakeScale(changes);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const ProgramPlan program = PlanFor(**kernel, 4096);
  EXPECT_EQ(program.compile.arguments[0], (ArgumentHint{"x", "tensordesc<bf16[256]>"}));
  EXPECT_THAT(std::get<BufferPlan>(program.steps[0].args[0]).block_shape, ElementsAre(256));

  Changes odd = changes;
  odd["\"[256, 1024]\" default_value: \"256\""] = "\"[768]\" default_value: \"768\"";
  const TargetTraits traits = TargetTraitsFor("sm_90a").value();
  const Problem problem = (*MakeScale(odd))->MakeProblem({}, "", "sm_90a").value();
  const Config config = (*MakeScale(odd))->DefaultConfig(problem, traits).value();
  EXPECT_THAT(
      std::string((*MakeScale(odd))->PlanProgram(problem, traits, config).status().message()),
      HasSubstr("768 is no power of two"));
}

TEST(KernelTritonTest, HintsFollowFromValues) {
  const auto kernel = MakeScale();
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(PlanFor(**kernel, 100).compile.arguments[2], (ArgumentHint{"n", "i32", 1}));
  EXPECT_EQ(PlanFor(**kernel, 1).compile.arguments[2], (ArgumentHint{"n", "i32", 1, true}));
}

TEST(KernelTritonTest, TheReferenceIsOfAnotherLanguage) {
  const auto kernel = MakeScale();
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const Problem problem = (*kernel)->MakeProblem({}, "", "sm_90a").value();
  const ProblemPlan plan =
      (*kernel)->PlanProblem(problem, TargetTraitsFor("sm_90a").value()).value();
  EXPECT_EQ(plan.reference.compile.language, Language::kCuda);
  EXPECT_EQ(plan.reference.compile.source_name, "scale.cu");
  EXPECT_THAT(plan.reference.compile.headers, IsEmpty()) << "Python is no header of C++";
  EXPECT_THAT(plan.reference.compile.options, IsEmpty());
  EXPECT_THAT(plan.reference.steps[0].launch.block, ElementsAre(128, 1, 1));
}

TEST(KernelTritonTest, ATypeOrAnEmptyTextIsADefine) {
  const auto kernel =
      MakeScale({{"defines { name: \"HALF\" value: \"n / 2 > 4\" }",
                  "defines { name: \"HALF\" value: \"'tl.bfloat16' if dtype == 'bf16' "
                  "else ''\" }"}});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const auto half = [&](const std::string& dtype) {
    const TargetTraits traits = TargetTraitsFor("sm_90a").value();
    const Problem problem = (*kernel)->MakeProblem({}, dtype, "sm_90a").value();
    const Config config = (*kernel)->DefaultConfig(problem, traits).value();
    return (*kernel)->PlanProgram(problem, traits, config).value().compile.defines;
  };
  EXPECT_THAT(half("bf16"), ::testing::Contains(Pair("HALF", "'tl.bfloat16'")));
  EXPECT_THAT(half("f32"), ::testing::Contains(Pair("HALF", "''")));
}

TEST(KernelTritonTest, ACubinIsNoHeaderOfAReferenceInAnotherLanguage) {
  const auto kernel = server::ReadKernel("scale.textproto", R"spec(name: "scale"
language: CUBIN
source: "a.cubin"
headers: ["b.cubin", "parts.h"]
source_choice: "'a.cubin' if WIDE else 'b.cubin'"
entry: "scale"
targets: "sm_90a"
dims { name: "n" default_value: 4096 min: 1 }
dtypes: "f32"
params { name: "WIDE" values: "[0, 1]" default_value: "0" }
args { name: "x" buffer { dtype: "f32" shape: "n" role: ROLE_INPUT } }
args { name: "y" buffer { dtype: "f32" shape: "n" role: ROLE_OUTPUT } }
launch { grid: "n" block: "32" }
reference { source: "scale.cu" entry: "scale_reference" launch { grid: "1" block: "128" } }
)spec",
                                         {{"a.cubin", std::string("\x7f"
                                                                  "ELF\0a",
                                                                  6)},
                                          {"b.cubin", std::string("\x7f"
                                                                  "ELF\0b",
                                                                  6)},
                                          {"parts.h", "int parts();"},
                                          {"scale.cu", "c++"}});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const Problem problem = (*kernel)->MakeProblem({}, "", "sm_90a").value();
  const ProblemPlan plan =
      (*kernel)->PlanProblem(problem, TargetTraitsFor("sm_90a").value()).value();
  ASSERT_EQ(plan.reference.compile.headers.size(), 1u);
  EXPECT_EQ(plan.reference.compile.headers[0].name, "parts.h");
}

// The kernel itself at its default config, for what nobody has written a second time.
TEST(KernelTritonTest, AReferenceInTritonHasOutputsAsTheyAre) {
  const auto kernel = MakeScale(
      {{"source: \"scale.cu\" entry: \"scale_reference\" launch { grid: \"1\" block: \"128\" }",
        "entry: \"scale\" launch { grid: \"ceil_div(n, BLOCK)\" }"},
       {"dtype: \"f32\" shape: \"n\" role: ROLE_OUTPUT",
        "dtype: \"dtype\" shape: \"n\" role: ROLE_OUTPUT"}});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const Problem problem = (*kernel)->MakeProblem({}, "", "sm_90a").value();
  const ProgramPlan plan =
      (*kernel)->PlanProblem(problem, TargetTraitsFor("sm_90a").value()).value().reference;
  EXPECT_EQ(plan.compile.language, Language::kTriton);
  EXPECT_EQ(plan.compile.source_name, "scale.py");
  EXPECT_EQ(plan.compile.arguments, PlanFor(**kernel, 4096).compile.arguments);
  EXPECT_EQ(plan.compile.options, PlanFor(**kernel, 4096).compile.options);
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(std::get<BufferPlan>(plan.steps[0].args[1]).dtype, DType::kBF16);
  EXPECT_THAT(plan.steps[0].launch.grid, ElementsAre(16, 1, 1));
}

TEST(KernelTritonTest, RefusesFieldsThatTritonDecides) {
  const std::pair<Changes, std::string> cases[] = {
      {{{"launch { grid: \"ceil_div(n, BLOCK)\" }", "launch { grid: \"1\" block: \"128\" }"}},
       "launch.block[0]: Triton decides it"},
      {{{"launch { grid: \"ceil_div(n, BLOCK)\" }", "launch { grid: \"1\" shared_bytes: \"8\" }"}},
       "launch.shared_bytes: Triton decides it"},
      {{{"role: ROLE_INPUT }",
         "role: ROLE_INPUT tensor_descriptor { block_shape: [\"8\", \"8\"] } }"}},
       "tensor_descriptor.block_shape: one for each dimension of the buffer: 1, not 2"},
      {{{"args { name: \"a\"",
         "args { name: \"m\" tensor_map { buffer: \"x\" } }\nargs { name: \"a\""}},
       "args[3].tensor_map: Triton takes no tensor maps: give the buffer a tensor_descriptor"},
      {{{"source: \"scale.cu\"", "source: \"parts.py\""}}, "reference.launch"},
      {{{"source: \"scale.cu\" entry: \"scale_reference\" launch { grid: \"1\" block: \"128\" }",
         "entry: \"scale\" launch { grid: \"1\" block: \"128\" }"}},
       "launch.block[0]: Triton decides it"},
      {{{"source: \"scale.cu\" entry: \"scale_reference\" launch { grid: \"1\" block: \"128\" }",
         "entry: \"scale\" dtype: \"f32\" launch { grid: \"1\" }"}},
       "reference.dtype: a reference in Triton has outputs of the args' own dtypes"},
      {{{"name: \"num_warps\"", "name: \"num_warp\""}},
       "params[2].name: nothing has a 'num_warp': no file, no expression; nor is it an option of "
       "Triton: num_warps, num_ctas"},
      {{{"dtypes:", "nvrtc_options: \"-lineinfo\"\ndtypes:"}}, "without options of NVRTC"},
  };
  for (const auto& [changes, message] : cases) {
    const absl::Status status = MakeScale(changes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(KernelTritonTest, DoesNotRunOnTheCpu) {
  const auto kernel = MakeScale();
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_FALSE((*kernel)->RunsOn("cpu"));
  EXPECT_EQ(std::string((*kernel)->WhyNotOn("cpu").message()),
            "kernel 'scale' is written in Triton, which runs on GPUs, not on cpu");
}

// An artifact as the compiler of TTIR makes them.
Artifact Compiled() {
  Artifact artifact;
  EntryFacts& entry = artifact.entries.emplace_back();
  entry.name = "scale";
  entry.threads = 128;
  entry.parameters = {{8, "*fp32", "y", 16}, {8, "*bf16", "x", 16}, {4, "i32", "n", 16}};
  entry.launch = LaunchFacts{
      .threads = 128, .cluster = 2, .shared_bytes = 512, .scratch = {{384, 128}, {0, 1}}};
  return artifact;
}

TEST(FitStepsTest, TheArtifactDecidesHowAStepIsLaunched) {
  const auto kernel = MakeScale();
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  ProgramPlan program = PlanFor(**kernel, 4096);
  const absl::Status fits = FitSteps(Compiled(), program);
  ASSERT_TRUE(fits.ok()) << fits;
  const StepPlan& step = program.steps[0];
  EXPECT_THAT(step.launch.grid, ElementsAre(32, 1, 1)) << "two blocks for each of the spec's grid";
  EXPECT_THAT(step.launch.block, ElementsAre(128, 1, 1));
  EXPECT_THAT(step.launch.cluster, ElementsAre(2, 1, 1));
  EXPECT_EQ(step.launch.shared_bytes, 512);
  ASSERT_EQ(step.args.size(), 5u) << "'a' is not taken, two pointers to scratch are";
  EXPECT_EQ(std::get<BufferPlan>(step.args[0]).name, "y");
  EXPECT_EQ(std::get<BufferPlan>(step.args[1]).name, "x");
  const BufferPlan& scratch = std::get<BufferPlan>(step.args[3]);
  EXPECT_EQ(scratch.role, Role::kScratch);
  EXPECT_EQ(scratch.count, 32 * 384);
  EXPECT_EQ(std::get<ScalarPlan>(step.args[4]).value, Value(int64_t{0}));
}

TEST(FitStepsTest, RefusesAnArtifactWhoseParametersDoNotFit) {
  const auto kernel = MakeScale();
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  Artifact artifact = Compiled();
  artifact.entries[0].parameters->at(0).name = "z";
  ProgramPlan program = PlanFor(**kernel, 4096);
  EXPECT_THAT(std::string(FitSteps(artifact, program).message()),
              HasSubstr("takes a parameter 'z', which no arg of the spec is called"));
  artifact = Compiled();
  artifact.entries[0].parameters->at(0).bytes = 4;
  program = PlanFor(**kernel, 4096);
  EXPECT_THAT(std::string(FitSteps(artifact, program).message()), HasSubstr("arg 1 'y'"));
  artifact = Compiled();
  artifact.entries[0].launch->scratch[0].bytes = int64_t{1} << 33;
  program = PlanFor(**kernel, 4096);
  EXPECT_THAT(std::string(FitSteps(artifact, program).message()), HasSubstr("of scratch"));
}

}  // namespace
}  // namespace tune
