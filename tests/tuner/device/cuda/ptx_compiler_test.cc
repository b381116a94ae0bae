// SPDX-License-Identifier: Apache-2.0
// Kernels that are written in PTX, as far as they go without a GPU: docs/examples/ptx is read,
// planned and compiled.
#include "tuner/device/cuda/ptx_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/wire/spec.h"
#include "tuner/device/cuda/ptx_module.h"
#include "tuner/device/program_checks.h"
#include "tuner/kernel/kernel.h"

namespace tune::cuda {
namespace {

using ::testing::HasSubstr;

std::string ReadExample(const std::string& name) {
  std::ifstream file(absl::StrCat(EXAMPLE_DIR "/", name));
  return {std::istreambuf_iterator<char>(file), {}};
}

std::map<std::string, std::string> ExampleFiles() {
  std::map<std::string, std::string> files;
  for (const char* name : {"scale.ptx", "scale4.ptx", "scale_reference.cu"}) {
    files[name] = ReadExample(name);
  }
  return files;
}

absl::StatusOr<std::shared_ptr<const Kernel>> Example(const std::string& added = "") {
  return server::ReadKernel("scale.textproto", ReadExample("scale.textproto") + added,
                            ExampleFiles());
}

TEST(PtxModule, TellsVersionTargetAndKernels) {
  const auto module = ReadPtx("k.ptx", R"(// .entry comment(
.version 8.4
.target sm_90a, debug
.address_size 64
/* .entry other( */
.func helper(.param .u32 x) { ret; }
.visible  .entry  first  (
  .param .u64 .ptr .global .align 16 first_x, // of floats
  .param .f32 first_a
) .maxntid 128, 2, 1 .minnctapersm 2
{ ret; }
.entry second ()
.reqntid 64
{ ret; }
.weak .entry third
{ ret; }
)");
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ(module->version, "8.4");
  EXPECT_EQ(module->target, "sm_90a");
  const std::vector<EntryFacts> expected = {
      {.name = "first",
       .parameters = std::vector<ParameterFact>{{8, ".ptr"}, {4, ".f32"}},
       .threads_max = 256},
      {.name = "second", .parameters = std::vector<ParameterFact>(), .threads = 64},
      {.name = "third", .parameters = std::vector<ParameterFact>()}};
  EXPECT_EQ(module->entries, expected);
}

TEST(PtxModule, ADeclarationIsNotTheDefinition) {
  const auto module = ReadPtx("k.ptx", R"(.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x);
.entry other (.param .u32 n) .reqntid 32 { ret; }
.visible .entry k(.param .u64 x) .maxntid 128 { ret; }
.entry never(.param .u64 x) ;
)");
  ASSERT_TRUE(module.ok()) << module.status();
  const std::vector<EntryFacts> expected = {
      {.name = "other", .parameters = std::vector<ParameterFact>{{4, ".u32"}}, .threads = 32},
      {.name = "k", .parameters = std::vector<ParameterFact>{{8, ".u64"}}, .threads_max = 128}};
  EXPECT_EQ(module->entries, expected);
}

TEST(PtxModule, SaysWhereItIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "k.ptx:1: no .version: this is no PTX"},
      {".version 8.0\n.address_size 64\n", "no .target"},
      {".version 8.0\n.target sm_80\n.address_size 32\n", "k.ptx:3: .address_size must be 64"},
      {".version 8.0\n.target sm_80\n.entry k(.param .u64 x", "without an end"},
      {".version 8.0\n.target sm_80\n\n.entry k(x)\n{}", "k.ptx:4: the parameters of 'k'"},
      {"/* .version 8.0", "no .version"}};
  for (const auto& [text, message] : cases) {
    const absl::Status status = ReadPtx("k.ptx", text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << text;
  }
}

TEST(PtxTarget, RunsOnTargetsThatAreNotOlder) {
  for (const auto& [ptx, target] :
       {std::pair("sm_70", "sm_90a"), std::pair("sm_90", "sm_90"), std::pair("sm_90a", "sm_90a"),
        std::pair("sm_100f", "sm_103a"), std::pair("sm_90", "sm_120")}) {
    EXPECT_TRUE(CheckPtxTarget(ptx, target).ok()) << ptx << " on " << target;
  }
  for (const auto& [ptx, target] :
       {std::pair("sm_100", "sm_90a"), std::pair("sm_90a", "sm_90"), std::pair("sm_90a", "sm_100a"),
        std::pair("sm_100f", "sm_120"), std::pair("compute", "sm_90")}) {
    EXPECT_FALSE(CheckPtxTarget(ptx, target).ok()) << ptx << " on " << target;
  }
}

TEST(PtxKernel, AParamChoosesTheFileAndIsNoMacro) {
  const auto kernel = Example();
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const TargetTraits traits = TargetTraitsFor("sm_90a").value();
  const Problem problem = (*kernel)->MakeProblem({{"n", 4096}}, "", "sm_90a").value();
  const Space space = (*kernel)->MakeSpace(problem, traits).value();
  EXPECT_EQ(space.size(), 10u);
  for (uint64_t i = 0; i < space.size(); ++i) {
    const ProgramPlan plan = (*kernel)->PlanProgram(problem, traits, space.At(i)).value();
    const bool wide = absl::StrContains(ToText(space.At(i)), "VEC=4");
    EXPECT_EQ(plan.compile.language, Language::kPtx);
    EXPECT_EQ(plan.compile.source_name, wide ? "scale4.ptx" : "scale.ptx");
    EXPECT_TRUE(plan.compile.defines.empty());
    EXPECT_TRUE(plan.compile.headers.empty());
  }
  const ProblemPlan plan = (*kernel)->PlanProblem(problem, traits).value();
  EXPECT_EQ(plan.reference.compile.language, Language::kCuda);
  EXPECT_EQ(plan.reference.compile.source_name, "scale_reference.cu");
  EXPECT_FALSE(plan.reference.compile.defines.empty());
}

TEST(PtxKernel, TakesNoMacrosNoOptionsAndNoCpu) {
  EXPECT_THAT(std::string(Example("defines { name: \"N\" value: \"1\" }\n").status().message()),
              HasSubstr("defines[0].name: PTX has no macros"));
  EXPECT_THAT(std::string(Example("nvrtc_options: \"--use_fast_math\"\n").status().message()),
              HasSubstr("nvrtc_options[0]: PTX is compiled without options"));
  const auto kernel = Example();
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_FALSE((*kernel)->RunsOn("cpu"));
  EXPECT_EQ(std::string((*kernel)->MakeProblem({}, "", "cpu").status().message()),
            "kernel 'scale-ptx' is written in PTX, which runs on GPUs, not on cpu");
}

class PtxCompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Compiler>> compiler = MakePtxCompiler();
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    compiler_ = *std::move(compiler);
  }
  Artifact Compile(const CompilePlan& plan) {
    absl::StatusOr<Artifact> artifact = compiler_->Compile(plan);
    EXPECT_TRUE(artifact.ok()) << artifact.status();
    return artifact.ok() ? *std::move(artifact) : Artifact();
  }
  static CompilePlan PlanOf(const std::string& text, const std::string& target = "sm_90a") {
    return {.language = Language::kPtx,
            .target = target,
            .source_name = "scale.ptx",
            .source_text = text,
            .entries = {"scale"}};
  }

  std::unique_ptr<Compiler> compiler_;
};

TEST_F(PtxCompilerTest, TheExampleBecomesCubinsThatItsStepsFit) {
  const auto kernel = Example();
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  for (const std::string target : {"sm_80", "sm_90a"}) {
    const TargetTraits traits = TargetTraitsFor(target).value();
    const Problem problem = (*kernel)->MakeProblem({{"n", 4096}}, "", target).value();
    const Space space = (*kernel)->MakeSpace(problem, traits).value();
    for (uint64_t i = 0; i < space.size(); ++i) {
      ProgramPlan plan = (*kernel)->PlanProgram(problem, traits, space.At(i)).value();
      const Artifact artifact = Compile(plan.compile);
      ASSERT_EQ(artifact.outcome, Outcome::kOk) << artifact.log;
      EXPECT_TRUE(FitSteps(artifact, plan).ok()) << FitSteps(artifact, plan);
      EXPECT_FALSE(artifact.resources.binary_sha256.empty());
      if (compiler_->Version() == "driver") continue;
      EXPECT_TRUE(absl::StartsWith(artifact.binary,
                                   "\x7f"
                                   "ELF"));
      EXPECT_GT(artifact.resources.registers, 0) << artifact.log;
      plan.steps[0].launch.block[0] = 2048;
      EXPECT_THAT(std::string(FitSteps(artifact, plan).message()),
                  HasSubstr("'scale' is launched with 2048 threads a block; it was compiled for at "
                            "most 1024"));
      plan.steps[0].launch.block[0] = 128;
      plan.steps[0].args.pop_back();
      EXPECT_THAT(std::string(FitSteps(artifact, plan).message()), HasSubstr("takes 4 parameters"));
    }
  }
}

TEST_F(PtxCompilerTest, RefusesEntriesAndTargetsThatCannotRun) {
  const std::string good = ReadExample("scale.ptx");
  EXPECT_EQ(Compile(PlanOf(good)).outcome, Outcome::kOk);
  CompilePlan plan = PlanOf(good);
  plan.entries = {"other"};
  EXPECT_EQ(Compile(plan).log, "scale.ptx: no .entry 'other'; it has: scale");
  plan = PlanOf(good, "sm_9000");
  EXPECT_EQ(Compile(plan).outcome, Outcome::kInvalidConfig);
  std::string newer = good;
  newer.replace(newer.find("sm_70"), 5, "sm_100");
  EXPECT_EQ(Compile(PlanOf(newer)).outcome, Outcome::kCompileFailed);
  EXPECT_EQ(Compile(PlanOf(newer)).log,
            "scale.ptx: PTX of '.target sm_100' does not run on sm_90a");
  EXPECT_EQ(Compile(PlanOf("what is this")).outcome, Outcome::kCompileFailed);
  if (compiler_->Version() == "driver") return;  // says so when a variant is loaded
  std::string wrong = good;
  wrong.replace(wrong.find("mul.rn.f32"), 10, "mul.xx.f32");
  const Artifact artifact = Compile(PlanOf(wrong));
  EXPECT_EQ(artifact.outcome, Outcome::kCompileFailed);
  EXPECT_THAT(artifact.log, HasSubstr(".xx"));
}

}  // namespace
}  // namespace tune::cuda
