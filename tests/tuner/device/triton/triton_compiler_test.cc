// SPDX-License-Identifier: Apache-2.0
// Triton as it is installed: from Python to a cubin, without a GPU. Skipped where there is none.
#include "tuner/device/triton/triton_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tuner/device/compile_request.h"
#include "tuner/device/program_checks.h"
#include "tuner/device/triton/installation.h"

namespace tune::triton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kSource[] = R"python(import triton
import triton.language as tl


@triton.jit
def scaled(value, factor):
    return value * factor


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr, FACTOR: tl.constexpr = 2):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, scaled(tl.load(x + at, mask=at < n), FACTOR), mask=at < n)
)python";

class TritonCompilerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string folder = testing::TempDir() + "tune-triton-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) return;
    folder_ = new std::string(folder);
    absl::StatusOr<Installation> found = FindTriton();
    if (!found.ok()) {
      why_not_ = new std::string(found.status().message());
      return;
    }
    front_ = MakeFrontEnd(*found, folder).release();
    back_ = MakeTtirCompiler(*found, folder).release();
  }
  static void TearDownTestSuite() {
    delete front_;
    delete back_;
    if (folder_ != nullptr) std::filesystem::remove_all(*folder_);
  }
  void SetUp() override {
    if (front_ != nullptr) return;
    const std::string why = why_not_ == nullptr ? "no folder" : *why_not_;
    if (getenv("TUNE_TRITON_REQUIRED") != nullptr) FAIL() << why;
    GTEST_SKIP() << why;
  }

  static CompilePlan Plan(const std::string& source = kSource,
                          const std::string& target = "sm_90a") {
    return {.language = Language::kTriton,
            .target = target,
            .source_name = "scale.py",
            .source_text = source,
            .defines = {{"BLOCK", "1024"}},
            .options = {"num_warps=4", "num_ctas=1", "num_stages=3", "enable_fp_fusion=True"},
            .entries = {"scale"},
            .arguments = {{"n", "i32", 16}, {"x", "*fp32", 16}, {"y", "*fp32", 16}}};
  }
  static std::string With(const std::string& from, const std::string& to) {
    return absl::StrReplaceAll(kSource, {{from, to}});
  }
  static Artifact Front(const CompilePlan& plan) {
    absl::StatusOr<Artifact> artifact = front_->Compile(plan);
    EXPECT_TRUE(artifact.ok()) << artifact.status();
    return artifact.ok() ? *std::move(artifact) : Artifact{};
  }
  static Artifact Back(const CompilePlan& plan) {
    absl::StatusOr<Artifact> artifact = back_->Compile(plan);
    EXPECT_TRUE(artifact.ok()) << artifact.status();
    return artifact.ok() ? *std::move(artifact) : Artifact{};
  }
  // Through both compilers.
  static Artifact Whole(const CompilePlan& plan) {
    Artifact front = Front(plan);
    if (front.outcome != Outcome::kOk) return front;
    return Back(Lowered(plan, Language::kTtir, front).value());
  }
  static void ExpectFailure(const std::string& source, const std::string& message) {
    const Artifact artifact = Front(Plan(source));
    EXPECT_EQ(artifact.outcome, Outcome::kCompileFailed);
    EXPECT_THAT(artifact.log, StartsWith(message));
  }

  static inline Compiler* front_ = nullptr;
  static inline Compiler* back_ = nullptr;
  static inline std::string* folder_ = nullptr;
  static inline std::string* why_not_ = nullptr;
};

TEST_F(TritonCompilerTest, MakesCubinsForEveryGeneration) {
  EXPECT_THAT(front_->Version(), StartsWith("Triton 3."));
  EXPECT_THAT(front_->Version(), HasSubstr("ptxas 1"));
  for (const std::string target : {"sm_80", "sm_90", "sm_90a", "sm_100"}) {
    const Artifact artifact = Whole(Plan(kSource, target));
    ASSERT_EQ(artifact.outcome, Outcome::kOk) << target << ": " << artifact.log;
    EXPECT_TRUE(absl::StartsWith(artifact.binary,
                                 "\x7f"
                                 "ELF"))
        << target;
    EXPECT_GT(artifact.resources.registers, 0) << target;
    ASSERT_EQ(artifact.entries.size(), 1u);
    const EntryFacts& entry = artifact.entries[0];
    EXPECT_EQ(entry.name, "scale");
    ASSERT_TRUE(entry.launch.has_value());
    EXPECT_EQ(entry.launch->threads, 128);
    EXPECT_EQ(entry.launch->cluster, 1);
    EXPECT_EQ(entry.launch->scratch.size(), 2u);
    // In the function's order, which is not the args'.
    EXPECT_THAT(*entry.parameters,
                ElementsAre(ParameterFact{8, "*fp32", "x", 16}, ParameterFact{8, "*fp32", "y", 16},
                            ParameterFact{4, "i32", "n", 16}));
  }
}

TEST_F(TritonCompilerTest, AStepIsLaunchedAsTheArtifactSays) {
  CompilePlan plan = Plan();
  plan.options[0] = "num_warps=8";
  plan.options[1] = "num_ctas=2";
  ProgramPlan program = {.compile = plan};
  const BufferPlan x = {.name = "x", .count = 4096, .role = Role::kInput};
  const BufferPlan y = {.name = "y", .count = 4096, .role = Role::kOutput};
  const ScalarPlan n = {"n", DType::kI32, int64_t{4096}};
  program.steps.push_back({.launch = {.entry = "scale", .grid = {4, 1, 1}}, .args = {n, x, y}});
  const Artifact artifact = Whole(plan);
  ASSERT_EQ(artifact.outcome, Outcome::kOk) << artifact.log;
  ASSERT_TRUE(FitSteps(artifact, program).ok());
  const LaunchPlan& launch = program.steps[0].launch;
  EXPECT_THAT(launch.block, ElementsAre(256, 1, 1));
  EXPECT_THAT(launch.cluster, ElementsAre(2, 1, 1));
  EXPECT_THAT(launch.grid, ElementsAre(8, 1, 1));
  ASSERT_EQ(program.steps[0].args.size(), 5u);
  EXPECT_EQ(std::get<BufferPlan>(program.steps[0].args[0]).name, "x");
  EXPECT_EQ(std::get<ScalarPlan>(program.steps[0].args[2]).name, "n");
  EXPECT_EQ(std::get<ScalarPlan>(program.steps[0].args[4]).value, Value(int64_t{0}));
}

// y = x, a block a program, through descriptors of the host.
constexpr char kDescriptors[] = R"python(import triton


@triton.jit
def scale(x, y, n):
    at = [triton.language.program_id(0) * 64, 0]
    y.store(at, x.load(at))
)python";

class DescriptorTest : public TritonCompilerTest {
 protected:
  static CompilePlan DescriptorPlan(const std::string& target) {
    CompilePlan plan = Plan(kDescriptors, target);
    plan.arguments = {
        {"x", "tensordesc<bf16[64, 128]>"}, {"y", "tensordesc<bf16[64, 128]>"}, {"n", "i32", 16}};
    return plan;
  }
  static BufferPlan Matrix(const std::string& name, Role role) {
    return {.name = name,
            .dtype = DType::kBF16,
            .count = 640 * 256,
            .role = role,
            .shape = {640, 256},
            .block_shape = {64, 128},
            .nan_padding = true};
  }
  // The args that the step has once it fits what was compiled.
  static std::vector<ArgPlan> Fitted(const std::string& target) {
    ProgramPlan program = {.compile = DescriptorPlan(target)};
    program.steps.push_back({.launch = {.entry = "scale", .grid = {10, 1, 1}},
                             .args = {Matrix("x", Role::kInput), Matrix("y", Role::kOutput),
                                      ScalarPlan{"n", DType::kI32, int64_t{640}}}});
    const Artifact artifact = Whole(program.compile);
    EXPECT_EQ(artifact.outcome, Outcome::kOk) << artifact.log;
    // Steps that fit stay as they are.
    for (int again = 0; again < 2; ++again) {
      const absl::Status fits = FitSteps(artifact, program);
      EXPECT_TRUE(fits.ok()) << fits;
    }
    return program.steps[0].args;
  }
};

TEST_F(DescriptorTest, BecomesAMapAndItsSizes) {
  for (const std::string target : {"sm_90", "sm_100"}) {
    const std::vector<ArgPlan> args = Fitted(target);
    ASSERT_EQ(args.size(), 2u * 5 + 1 + 2) << target;
    const auto& map = std::get<TensorMapPlan>(args[0]);
    EXPECT_EQ(map.buffer.name, "x");
    EXPECT_THAT(map.dims, ElementsAre(256, 640));
    EXPECT_THAT(map.strides_bytes, ElementsAre(512));
    // A box has 64 of the 128 columns, the most that its swizzle takes.
    EXPECT_EQ(map.swizzle_bytes, 128);
    EXPECT_THAT(map.box, ElementsAre(64, 64));
    EXPECT_TRUE(map.nan_padding);
    for (const auto& [i, dtype, value] : {std::tuple{1, DType::kI32, 640},
                                          {2, DType::kI32, 256},
                                          {3, DType::kI64, 256},
                                          {4, DType::kI64, 1}}) {
      const auto& scalar = std::get<ScalarPlan>(args[static_cast<size_t>(i)]);
      EXPECT_EQ(scalar.dtype, dtype) << scalar.name;
      EXPECT_EQ(scalar.value, Value(int64_t{value})) << scalar.name;
    }
    EXPECT_EQ(std::get<TensorMapPlan>(args[5]).buffer.name, "y");
    EXPECT_EQ(std::get<ScalarPlan>(args[10]).name, "n");
  }
}

TEST_F(DescriptorTest, IsAPointerWithAllThatItKnowsBeforeTensorMaps) {
  const std::vector<ArgPlan> args = Fitted("sm_80");
  EXPECT_EQ(std::get<BufferPlan>(args[0]).name, "x");
  EXPECT_EQ(std::get<ScalarPlan>(args[1]).name, "x.shape[0]");
  EXPECT_EQ(std::get<ScalarPlan>(args[1]).dtype, DType::kI64);
  const auto& padding = std::get<ScalarPlan>(args[5]);
  EXPECT_EQ(padding.name, "x.nan_padding");
  EXPECT_EQ(padding.dtype, DType::kU8);
  EXPECT_EQ(padding.value, Value(int64_t{1}));
}

TEST_F(DescriptorTest, RefusesABlockShapeOtherThanTheTtirs) {
  const CompilePlan plan = DescriptorPlan("sm_90");
  CompilePlan ttir = Lowered(plan, Language::kTtir, Front(plan)).value();
  ttir.arguments[0].type = "tensordesc<bf16[128, 128]>";
  EXPECT_THAT(Back(ttir).log, HasSubstr("arg 'x' is tensordesc<bf16[128, 128]>"));
}

TEST_F(TritonCompilerTest, ArgsAreTakenInOrderWhereANameIsNoParameter) {
  CompilePlan plan = Plan();
  plan.arguments = {{"from", "*fp32", 16}, {"to", "*fp32", 16}, {"n", "i32", 16}};
  const Artifact artifact = Whole(plan);
  ASSERT_EQ(artifact.outcome, Outcome::kOk) << artifact.log;
  EXPECT_EQ(artifact.entries[0].parameters->at(1).name, "to");
  plan.arguments = {{"y", "*fp32", 16}, {"from", "*fp32", 16}, {"n", "i32", 16}};
  EXPECT_THAT(Front(plan).log, HasSubstr("'scale' has no parameter 'from'"))
      << "y has a place, which is another";
}

TEST_F(TritonCompilerTest, PlacesAndNamesOfFilesDoNotMatter) {
  CompilePlan moved = Plan(std::string("# a comment\n\n\n") + kSource);
  moved.source_name = "other.py";
  EXPECT_EQ(Front(Plan()).binary, Front(moved).binary);
  EXPECT_NE(Front(Plan()).binary, Front(Plan(With("FACTOR)", "FACTOR + 1)"))).binary);
}

TEST_F(TritonCompilerTest, ArgumentHintsReachTheKernel) {
  CompilePlan plan = Plan();
  const std::string hinted = Front(plan).binary;
  EXPECT_THAT(hinted, HasSubstr("tt.divisibility = 16"));
  for (ArgumentHint& hint : plan.arguments) hint.divisor = 1;
  EXPECT_THAT(Front(plan).binary, Not(HasSubstr("tt.divisibility")));
  // An integer that is 1 is a constant, unless the source does not want it.
  plan.arguments[0].is_one = true;
  EXPECT_EQ(Front(plan).entries[0].parameters->size(), 2u);
  CompilePlan unspecialized =
      Plan(With("@triton.jit\ndef scale(", "@triton.jit(do_not_specialize=[\"n\"])\ndef scale("));
  unspecialized.arguments = plan.arguments;
  EXPECT_EQ(Front(unspecialized).entries[0].parameters->size(), 3u);
  // Options are compiled with, the default of a parameter too.
  CompilePlan four = Plan();
  four.defines.emplace_back("FACTOR", "4");
  EXPECT_NE(Front(four).binary, hinted);
  CompilePlan two = Plan();
  two.defines.emplace_back("FACTOR", "2");
  EXPECT_EQ(Front(two).binary, hinted);
}

TEST_F(TritonCompilerTest, ConfigsOfOneTextAreOneToTheFrontEnd) {
  CompilePlan plan = Plan();
  const CompilePlan asked = ForFrontEnd(plan);
  EXPECT_TRUE(asked.options.empty());
  EXPECT_EQ(Front(asked).binary, Front(plan).binary);
  plan.options = {"num_warps=8", "num_stages=5", "enable_fp_fusion=False"};
  EXPECT_TRUE(ForFrontEnd(plan).options.empty());
  EXPECT_EQ(Front(plan).binary, Front(asked).binary);
  // A source that asks for one is told, by whatever name.
  plan.source_text = With("FACTOR), mask", "FACTOR) * tl.extra.cuda.num_warps(), mask");
  EXPECT_THAT(ForFrontEnd(plan).options, ElementsAre("num_warps=8"));
  const std::string eight = Front(ForFrontEnd(plan)).binary;
  plan.options[0] = "num_warps=4";
  EXPECT_NE(Front(ForFrontEnd(plan)).binary, eight);
  plan.source_text = With("FACTOR), mask", "FACTOR) * tl.extra.cuda.num_threads(), mask");
  EXPECT_EQ(ForFrontEnd(plan).options, plan.options);
  plan.source_text = kSource;
  plan.headers = {{"parts.py", "def parts(_semantic):\n    return _semantic.builder.options\n"}};
  EXPECT_EQ(ForFrontEnd(plan).options, plan.options);
}

TEST_F(TritonCompilerTest, ErrorsNameTheLineOfTheSource) {
  ExpectFailure(With("tl.arange(0, BLOCK)", "tl.arange(0, BLOCK"), "scale.py:12: SyntaxError");
  ExpectFailure(With("tl.program_id", "tl.programme_id"), "scale.py:12: ");
  ExpectFailure(With("value * factor", "value * nothing"), "scale.py:7: ");
  ExpectFailure(With("def scale(", "def scale_it("),
                "scale.py: no @triton.jit function 'scale'; it has: scaled, scale_it");
  ExpectFailure(With("x, y, n,", "x, y, count, more,"),
                "scale.py:11: 'scale' has no parameter 'n', which is an arg of the spec");
  ExpectFailure(With("BLOCK: tl.constexpr", "BLOCK: tl.constexpr, WIDTH: tl.constexpr"),
                "scale.py:11: parameter 'WIDTH' of 'scale' is no arg, no param and no define");
  ExpectFailure(With("x, y, n,", "x, y, n: tl.constexpr,"),
                "scale.py:11: parameter 'n' of 'scale' is a tl.constexpr, and an arg");
  ExpectFailure("import os\nos.abort()\n", "the process of Python ended by signal 6");
  ExpectFailure("raise SystemExit(0)\n", "the process of Python ended by exit code 1");
}

TEST_F(TritonCompilerTest, HelpersMayBeInFilesOfTheirOwn) {
  const std::string source = kSource;
  const size_t begin = source.find("@triton.jit\ndef scaled");
  const size_t end = source.find("@triton.jit\ndef scale(");
  const std::string imports = source.substr(0, begin);
  CompilePlan plan = Plan(imports + "from parts import scaled\n\n\n" + source.substr(end));
  plan.headers = {{"parts.py", imports + source.substr(begin, end - begin)}};
  const Artifact artifact = Front(plan);
  EXPECT_EQ(artifact.outcome, Outcome::kOk) << artifact.log;
  EXPECT_EQ(artifact.binary, Front(Plan()).binary);
  plan.headers[0].text = absl::StrReplaceAll(plan.headers[0].text, {{"* factor", "* lost"}});
  EXPECT_THAT(Front(plan).log, StartsWith("parts.py:7: "));
}

// A library's file, with its host code, in a Python that has Triton and nothing else.
TEST_F(TritonCompilerTest, ModulesThatAreNotThereAreStoodInFor) {
  const std::string library = absl::StrCat(R"python(import torch
from somewhere.ops.shapes import doubled
from somewhere.utils import checked, tuned


@checked
def launch(x: torch.Tensor | None):
    return scale[(1,)](x, x.numel(), out=torch.empty_like(x))


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return launch(x)


)python",
                                           kSource);
  CompilePlan plan = Plan(absl::StrReplaceAll(
      library, {{"\n@triton.jit\ndef scale(", "\n@tuned(key=[1])\n@triton.jit\ndef scale("},
                {"scaled(tl.load(x + at, mask=at < n), FACTOR)",
                 "scaled(doubled(tl.load(x + at, mask=at < n)), FACTOR)"}}));
  EXPECT_THAT(Front(plan).log,
              testing::AllOf(StartsWith("scale.py:2: "), HasSubstr("somewhere.ops.shapes.doubled"),
                             HasSubstr("modules that are not there: somewhere, torch")));
  plan.headers = {
      {"shapes.py", "import triton\n\n\n@triton.jit\ndef doubled(value):\n    return value * 2\n"}};
  EXPECT_EQ(Front(plan).outcome, Outcome::kOk) << Front(plan).log;

  ExpectFailure(absl::StrCat("import torch\nif torch.cuda.is_available():\n    pass\n", kSource),
                "scale.py:2: what 'torch.cuda.is_available' is decides here");
  // Whether this Python has it or not.
  const Artifact counted = Front(Plan(absl::StrCat("import numpy as np\nPI = np.pi\n", kSource)));
  EXPECT_EQ(counted.outcome, Outcome::kOk) << counted.log;
  // A module that this Python has, and whose version is in no key.
  ExpectFailure(absl::StrCat("import pip\nif pip.main:\n    pass\n", kSource),
                "scale.py:2: what 'pip.main' is decides here");
}

TEST_F(TritonCompilerTest, AFunctionGetsTheValuesOfTritonsLauncher) {
  const std::string source =
      With("\n@triton.jit\ndef scale(x, y, n, BLOCK: tl.constexpr,",
           "\n@triton.heuristics({'EVEN': lambda args: args['n'] % 2 == 0})\n@triton.jit\n"
           "def scale(x, y, n, bias, BLOCK: tl.constexpr, EVEN: tl.constexpr, "
           "num_warps: tl.constexpr,");
  CompilePlan plan = Plan(absl::StrReplaceAll(
      source, {{"    at = tl",
                "    tl.static_assert(bias is None and EVEN and num_warps == 4)\n"
                "    at = tl"}}));
  EXPECT_THAT(Front(plan).log, HasSubstr("parameter 'bias' of 'scale' is no arg"));
  plan.defines.push_back({"bias", "'None'"});
  plan.defines.push_back({"EVEN", "True"});
  EXPECT_EQ(Front(plan).outcome, Outcome::kOk) << Front(plan).log;
}

TEST_F(TritonCompilerTest, ASourceThatLeavesProcessesBehindCostsTheWorker) {
  // In the background of the source's own process, with its end of no pipe.
  const std::string source = absl::StrCat(
      "import os, time\nif os.fork() == 0:\n    os.closerange(0, 64)\n    time.sleep(2)\n",
      "    os._exit(0)\n", kSource);
  std::unique_ptr<Compiler> front = MakeFrontEnd(FindTriton().value(), *folder_ + "/left");
  const absl::StatusOr<Artifact> artifact = front->Compile(Plan(source));
  EXPECT_EQ(artifact.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(artifact.status().message()), HasSubstr("left processes running"));
}

// Also without the worker's walls, and for root: its process has a Landlock domain of its own.
TEST_F(TritonCompilerTest, ASourceReachesNoPipeOrMemoryOfItsParent) {
  const Artifact artifact = Front(Plan(absl::StrCat(R"python(import os


def opens(name):
    for mode in (os.O_RDONLY, os.O_WRONLY):
        try:
            os.close(os.open(f"/proc/{os.getppid()}/{name}", mode | os.O_NONBLOCK))
            return True
        except OSError:
            pass
    return False


opened = [name for name in ["mem", *(f"fd/{number}" for number in range(3, 16))] if opens(name)]
assert not opened, opened
try:
    os.read(3, 1)
    raise AssertionError("there are requests to be read")
except OSError:
    pass
)python",
                                                    kSource)));
  EXPECT_EQ(artifact.outcome, Outcome::kOk) << artifact.log;
}

// A forged reply is one to no request.
TEST_F(TritonCompilerTest, AReplyForgedByTheSourceIsRejected) {
  std::unique_ptr<Compiler> front = MakeFrontEnd(FindTriton().value(), *folder_ + "/forged");
  const absl::StatusOr<Artifact> artifact = front->Compile(Plan(absl::StrCat(R"python(import json
import os
import struct

for payload in (json.dumps({"outcome": "ok", "parameters": []}).encode(), b"module {}"):
    os.write(4, struct.pack("<I", len(payload)) + payload)
)python",
                                                                             kSource)));
  EXPECT_EQ(artifact.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(artifact.status().message()), HasSubstr("answered another request"));
}

std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> children;
  std::ifstream file(absl::StrCat("/proc/", parent, "/task/", parent, "/children"));
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

// TTIR runs nobody's Python, so that one process may compile many.
TEST_F(TritonCompilerTest, AProcessThatCompilesServesUntilACompileFails) {
  const CompilePlan ttir = Lowered(Plan(), Language::kTtir, Front(Plan())).value();
  const std::vector<pid_t> before = ChildrenOf(getpid());
  if (before.empty()) GTEST_SKIP() << "this host does not list children";
  std::unique_ptr<Compiler> back = MakeTtirCompiler(FindTriton().value(), *folder_ + "/kept");
  const auto outcome = [&](const CompilePlan& plan) { return back->Compile(plan)->outcome; };
  ASSERT_EQ(outcome(ttir), Outcome::kOk);
  const auto forks = [&] {
    std::vector<pid_t> python = ChildrenOf(getpid());
    std::erase_if(python, [&](pid_t pid) {
      return std::find(before.begin(), before.end(), pid) != before.end();
    });
    EXPECT_EQ(python.size(), 1u);
    return python.empty() ? python : ChildrenOf(python[0]);
  };
  const std::vector<pid_t> fork = forks();
  ASSERT_EQ(fork.size(), 1u);
  EXPECT_EQ(outcome(ttir), Outcome::kOk);
  EXPECT_EQ(forks(), fork);
  // A Python process that others have used is replaced, without blaming the next request.
  ASSERT_EQ(kill(fork[0], SIGKILL), 0);
  EXPECT_EQ(outcome(ttir), Outcome::kOk);
  EXPECT_NE(forks(), fork);
  // Nor is its failure: here it has room for the TTIR, and for nothing that is made of it.
  const std::vector<pid_t> cramped = forks();
  ASSERT_EQ(cramped.size(), 1u);
  const rlimit room = {ttir.source_text.size() + 64, RLIM_INFINITY};
  ASSERT_EQ(prlimit(cramped[0], RLIMIT_FSIZE, &room, nullptr), 0);
  EXPECT_EQ(outcome(ttir), Outcome::kOk);
  EXPECT_NE(forks(), cramped);
  CompilePlan broken = ttir;
  broken.source_text = absl::StrReplaceAll(ttir.source_text, {{"tt.store", "tt.stroe"}});
  EXPECT_EQ(outcome(broken), Outcome::kCompileFailed);
  EXPECT_TRUE(forks().empty());
  EXPECT_EQ(outcome(ttir), Outcome::kOk);
}

TEST_F(TritonCompilerTest, OptionsAndArgumentsThatDoNotFitAreRefused) {
  const auto refused = [](const std::string& option, const std::string& why) {
    CompilePlan plan = Plan();
    plan.options.push_back(option);
    const Artifact artifact = Front(plan);
    EXPECT_EQ(artifact.outcome, Outcome::kInvalidConfig) << option;
    EXPECT_THAT(artifact.log, HasSubstr(why));
  };
  refused("num_warp=4", "no option 'num_warp'");
  refused("num_warps=3", "no power of two");
  refused("num_stages=0", "from 1 to");
  refused("maxnreg=1000", "from 16 to 255");
  CompilePlan old = Plan(kSource, "sm_80");
  old.options[1] = "num_ctas=2";
  EXPECT_EQ(Front(old).outcome, Outcome::kInvalidConfig);

  CompilePlan ttir = Lowered(Plan(), Language::kTtir, Front(Plan())).value();
  ttir.arguments.pop_back();
  EXPECT_THAT(Back(ttir).log, HasSubstr("has 3 parameters; there are 2 args"));
  ttir.arguments.push_back({"n", "i64"});
  EXPECT_THAT(Back(ttir).log, HasSubstr("is i32; arg 'n' is i64"));
  ttir.arguments.back().type = "i32";
  EXPECT_EQ(Back(ttir).outcome, Outcome::kOk);
  ttir.source_text = absl::StrReplaceAll(ttir.source_text, {{"tt.store", "tt.stroe"}});
  const Artifact broken = Back(ttir);
  EXPECT_EQ(broken.outcome, Outcome::kCompileFailed);
  EXPECT_THAT(broken.log, HasSubstr("tt.stroe"));
}

TEST_F(TritonCompilerTest, TooFewRegistersAreACompileThatFails) {
  CompilePlan plan = Plan(R"python(import triton
import triton.language as tl


@triton.jit
def scale(x, y, n, SIZE: tl.constexpr):
    row = tl.arange(0, SIZE)[:, None]
    col = tl.arange(0, SIZE)[None, :]
    at = row * n + col
    total = tl.dot(tl.load(x + at).to(tl.bfloat16), tl.load(x + at).to(tl.bfloat16))
    tl.store(y + at, total)
)python");
  plan.defines = {{"SIZE", "128"}};
  plan.options.push_back("maxnreg=64");
  const Artifact artifact = Whole(plan);
  EXPECT_EQ(artifact.outcome, Outcome::kCompileFailed);
  EXPECT_THAT(artifact.log, HasSubstr("ptxas"));
}

TEST(InstallationTest, APythonWithoutTritonIsAnErrorThatNamesTheFlag) {
  setenv("TUNE_TRITON_PYTHON", "/bin/false", 1);
  const absl::Status none = FindTriton().status();
  unsetenv("TUNE_TRITON_PYTHON");
  EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(none.message()), HasSubstr("/bin/false does not run"));
  EXPECT_THAT(std::string(none.message()), HasSubstr("--triton-python"));
}

TEST(InstallationTest, ATooOldTritonIsAnErrorThatNamesTheVersion) {
  std::string path = testing::TempDir() + "tune-old-triton-XXXXXX";
  close(mkstemp(path.data()));
  std::ofstream(path) << "#!/bin/sh\necho '{\"program\": \"x\", \"version\": \"3.4.0\"}'\n";
  chmod(path.c_str(), 0700);
  setenv("TUNE_TRITON_PYTHON", path.c_str(), 1);
  const absl::Status none = FindTriton().status();
  unsetenv("TUNE_TRITON_PYTHON");
  unlink(path.c_str());
  EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(none.message()), HasSubstr("has Triton 3.4.0, which is older than 3.5"));
}

}  // namespace
}  // namespace tune::triton
