// SPDX-License-Identifier: Apache-2.0
// Checkers and references on the host with the installed workers: those that fault, hang or lie are
// told by name, within a deadline, and the device goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/supervision/workers.h"
#include "server/wire/spec.h"
#include "tests/server/temp_dir.h"

namespace tune::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kSource[] = R"cuda(
#if TUNE_CHECKER
#include "tune_check.h"
extern "C" __global__ void check(const float* x, const float* y, int n, TuneFaults* faults) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  CHECK
}
#else
extern "C" __global__ void copy(const float* x, float* y, int n) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) y[i] = x[i];
}
#endif
)cuda";

class JudgesTest : public testing::Test {
 protected:
  JudgesTest() {
    WorkersOptions options;
    options.state_dir = dir_.path() + "/state";
    options.worker_dir = WORKER_DIR;
    options.limits.compile_workers = 1;  // each finds what the one before has left
    options.prepare_deadline = absl::Seconds(10);
    workers_ = Workers::Create(options).value();
    device_ = workers_->FindDevice("cpu").value();
  }

  // All of one origin, so that one process serves them.
  absl::StatusOr<std::shared_ptr<const Kernel>> Make(const std::string& judge,
                                                     const std::string& check,
                                                     const std::string& python = "") {
    std::string source = kSource;
    source.replace(source.find("CHECK\n"), 5, check);
    return ReadKernel("copy.textproto",
                      absl::StrCat(R"spec(name: "copy"
source: "copy.cu"
entry: "copy"
dims { name: "n" default_value: 1000 min: 1 }
dtypes: "f32"
args { name: "x" buffer { dtype: "f32" shape: "n" role: ROLE_INPUT } }
args { name: "y" buffer { dtype: "f32" shape: "n" role: ROLE_OUTPUT } }
args { name: "n" scalar { dtype: "i32" value: "n" } }
launch { grid: "ceil_div(n, 64)" block: "64" }
)spec",
                                   judge),
                      {{"copy.cu", source}, {"right.py", python}}, "somebody");
  }

  // The status of preparing the problem and, where that is well, the report of its default config.
  absl::StatusOr<RunReport> Judge(const Kernel& kernel) {
    const TargetTraits traits = TargetTraitsFor("cpu").value();
    const Problem problem = kernel.MakeProblem({}, "", "cpu").value();
    ProblemPlan plan = kernel.PlanProblem(problem, traits).value();
    absl::StatusOr<std::string> reference = workers_->compilers().CompileReference(plan, 7, {});
    if (!reference.ok()) return reference.status();
    if (absl::Status ready = device_->Prepare(plan, *reference, 7); !ready.ok()) return ready;
    ProgramPlan program =
        kernel.PlanProgram(problem, traits, kernel.DefaultConfig(problem, traits).value()).value();
    CompileResult made = workers_->compilers().Compile(program, {}).value();
    EXPECT_EQ(made.artifact.outcome, Outcome::kOk) << made.artifact.log;
    program.steps = made.steps;
    return device_->Run({WithBinary(program, made.artifact.binary), {.samples_max = 3}});
  }
  absl::StatusOr<RunReport> JudgeBy(const std::string& check) {
    return Judge(*Make(kChecker, check).value());
  }
  absl::StatusOr<RunReport> JudgeByPython(const std::string& python) {
    return Judge(*Make("reference { source: \"right.py\" entry: \"right\" }", "", python).value());
  }
  bool HasNumpy() { return workers_->compilers().Info(Language::kNumpy, "cpu").ok(); }

  static constexpr char kChecker[] =
      "checker { entry: \"check\" launch { grid: \"ceil_div(n, 64)\" block: \"64\" } }";
  static constexpr char kRight[] = "if (i < n && y[i] != x[i]) TuneFault(faults, i, \"moved\");";
  TempDir dir_;
  std::unique_ptr<Workers> workers_;
  DeviceSupervisor* device_ = nullptr;
};

TEST_F(JudgesTest, ACheckerThatFaultsIsToldAndTheNextOneJudges) {
  const absl::Status faults = JudgeBy("*(volatile int*)(16 + i) = 1;").status();
  EXPECT_EQ(faults.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(faults.message()),
              AllOf(HasSubstr("the checker failed twice on device cpu"),
                    HasSubstr("the checker wrote outside of all its buffers")));
  const absl::StatusOr<RunReport> right = JudgeBy(kRight);
  ASSERT_TRUE(right.ok()) << right.status();
  EXPECT_EQ(right->outcome, Outcome::kOk) << right->message;
}

TEST_F(JudgesTest, ACheckerThatHangsIsToldWithinTheDeadline) {
  const absl::Status hangs =
      JudgeBy("for (volatile long long k = 0; k < 50000000000ll; ++k) {}").status();
  EXPECT_THAT(std::string(hangs.message()),
              HasSubstr("the checker was not done within 10s on device cpu"));
}

TEST_F(JudgesTest, ACheckerThatDoesNotCompileIsTold) {
  EXPECT_THAT(std::string(JudgeBy("nonsense;").status().message()),
              AllOf(HasSubstr("the checker does not compile for cpu"), HasSubstr("nonsense")));
}

TEST_F(JudgesTest, AReferenceInNumpyIsComputedFromTheInputs) {
  if (!HasNumpy()) GTEST_SKIP() << "no Python with NumPy";
  const absl::StatusOr<RunReport> right = JudgeByPython("def right(x, n):\n    return x[:n]\n");
  ASSERT_TRUE(right.ok()) << right.status();
  EXPECT_EQ(right->outcome, Outcome::kOk) << right->message;
  EXPECT_EQ(JudgeByPython("def right(x):\n    return x + (x > 2)\n")->outcome,
            Outcome::kWrongResult);
}

TEST_F(JudgesTest, AReferenceInNumpyHasWallsAndItsMistakesHaveLines) {
  if (!HasNumpy()) GTEST_SKIP() << "no Python with NumPy";
  for (const auto& [python, why] :
       {std::pair("def right(x):\n    return x / y\n", "right.py:2: NameError"),
        std::pair("def right(x):\n    return open('/etc/passwd').read()\n", "PermissionError"),
        std::pair("import socket\ndef right(x):\n    socket.create_connection(('::1', 80))\n",
                  "right.py:3: "),
        std::pair("import os\ndef right(x):\n    os._exit(3)\n", "ended by exit code 3"),
        std::pair("import os\ndef right(x):\n    os.system('true'); return x[:2]\n",
                  "has the shape (2,), not (1000,)")}) {
    const absl::Status status = JudgeByPython(python).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("the reference in NumPy: "), HasSubstr(why)));
  }
}

// The next one may be somebody else's.
TEST_F(JudgesTest, AReferenceInNumpyFindsNothingOfTheOneBefore) {
  if (!HasNumpy()) GTEST_SKIP() << "no Python with NumPy";
  const absl::StatusOr<RunReport> first = JudgeByPython(R"python(import os
def right(x):
    for name in ("planted.py", "json.py"):
        with open(name, "w") as file:
            file.write("raise SystemExit(5)")
    for mode, folder in ((0o700, "deep"), (0o500, "unwritable"), (0o300, "unlisted")):
        os.makedirs(folder + "/below" * 60)
        open(folder + "/file", "w").close()
        os.mkdir(f"{folder}/closed", mode)
    return x
)python");
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::StatusOr<RunReport> second = JudgeByPython(R"python(import importlib.util, os
def right(x):
    left = set(os.listdir(".")) - {"inputs", "call"}
    assert not left, left
    assert importlib.util.find_spec("planted") is None
    return x
)python");
  EXPECT_TRUE(second.ok()) << second.status();
}

TEST_F(JudgesTest, AReferenceInNumpyIsCalledOnceForItsInputs) {
  if (!HasNumpy()) GTEST_SKIP() << "no Python with NumPy";
  const auto kernel = Make("reference { source: \"right.py\" entry: \"right\" }", "",
                           "def right(x):\n    return x\n")
                          .value();
  const TargetTraits traits = TargetTraitsFor("cpu").value();
  CompilePlan plan =
      kernel->PlanProblem(kernel->MakeProblem({}, "", "cpu").value(), traits)->host_reference;
  CompilePool* pool = workers_->compilers().PoolFor(Language::kNumpy, plan.target).value();
  EXPECT_FALSE(pool->Compile(plan, {})->cached);
  EXPECT_TRUE(pool->Compile(plan, {})->cached);
  plan.call.seed = 8;
  EXPECT_FALSE(pool->Compile(plan, {})->cached);
}

}  // namespace
}  // namespace tune::server
