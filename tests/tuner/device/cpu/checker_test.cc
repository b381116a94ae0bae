// SPDX-License-Identifier: Apache-2.0
// Results that are right in more than one way: a checker of the kernel's own judges them. One that
// is itself wrong is told before it judges anybody.
#include <gmock/gmock.h>

#include "tests/tuner/device/cpu/runner_fixture.h"
#include "tuner/tune_check.h"

namespace tune::embedded {
extern const std::string_view tune_check_header;
}

namespace tune::cpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kCount = 1000;

// y is x in any order: here of any two neighbours.
constexpr char kRight[] =
    "if (i < n && i + 1 < n && (y[i] != x[i] || y[i + 1] != x[i + 1]) && i % 2 == 0 &&\n"
    "    (y[i] != x[i + 1] || y[i + 1] != x[i])) {\n"
    "  TuneFault(faults, i, \"no neighbours\", y[i], x[i]);\n"
    "}\n";

class CheckerTest : public RunnerTest {
 protected:
  static ArgPlan Faults() {
    return BufferPlan{kFaultsBuffer, DType::kU8, sizeof(TuneFaults), Role::kInOut};
  }

  // `body` is of (const float* x, const float* y, int n, TuneFaults* faults), a thread for each i.
  absl::Status PrepareChecked(const std::string& body) {
    ProblemPlan plan;
    const BufferPlan x = Buffer("x", kCount, Role::kInput);
    const BufferPlan y = Buffer("y", kCount, Role::kOutput);
    plan.buffers = {x, y};
    args_ = {x, y, Int("n", kCount)};
    CompilePlan source =
        Source("check",
               "#include \"tune_check.h\"\nextern \"C\" __global__ void check(const float* x, "
               "const float* y, int n, TuneFaults* faults) {\n"
               "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n" +
                   body + "}\n");
    source.headers = {{"tune_check.h", std::string(embedded::tune_check_header)}};
    BufferPlan judged = y;
    judged.role = Role::kInput;
    plan.checker = {source, {Step("check", Grid(4, 256), {x, judged, Int("n", kCount), Faults()})}};
    plan.checker_binary = Compile(source);
    return runner_->Prepare(plan, "", /*seed=*/7);
  }

  // `value` of (const float* x, float* y, int n, int i).
  RunReport RunKernel(const std::string& value) {
    return Run("variant",
               "extern \"C\" __global__ void variant(const float* x, float* y, int n) {\n"
               "  const int i = blockIdx.x * 256 + threadIdx.x;\n  if (i < n) y[i] = " +
                   value + ";\n}\n",
               Grid(4, 256));
  }

  void ExpectRefused(const std::string& body, const std::string& why) {
    const absl::Status prepared = PrepareChecked(body);
    EXPECT_EQ(prepared.code(), absl::StatusCode::kInvalidArgument) << prepared;
    EXPECT_THAT(std::string(prepared.message()), AllOf(HasSubstr("the checker"), HasSubstr(why)));
  }
};

TEST_F(CheckerTest, EveryRightResultIsRight) {
  ASSERT_TRUE(PrepareChecked(kRight).ok());
  for (const char* value : {"x[i]", "x[i ^ 1]"}) {
    const RunReport report = RunKernel(value);
    EXPECT_EQ(report.outcome, Outcome::kOk) << value << ": " << report.message;
  }
}

TEST_F(CheckerTest, SaysHowManyWhereAndWhat) {
  ASSERT_TRUE(PrepareChecked(kRight).ok());
  const RunReport report = RunKernel("i == 500 || i == 702 ? 7.0f : x[i]");
  EXPECT_EQ(report.outcome, Outcome::kWrongResult);
  EXPECT_THAT(report.message, HasSubstr("the checker finds 2 faults, at 500: no neighbours: 7, "));
  EXPECT_EQ(report.error.bad_elements, 2u);
  EXPECT_EQ(RunKernel("x[i]").outcome, Outcome::kOk);
}

TEST_F(CheckerTest, JudgesOutputsOfAPeer) {
  ASSERT_TRUE(PrepareChecked(kRight).ok());
  const std::string zeros(kCount * sizeof(float), '\0');
  EXPECT_EQ(runner_->Judge({{"y", DType::kF32, zeros}})->outcome, Outcome::kWrongResult);
  EXPECT_EQ(runner_->Judge({{"y", DType::kF32, "short"}})->outcome, Outcome::kInvalidConfig);
  EXPECT_EQ(runner_->Judge({{"x", DType::kF32, zeros}})->outcome, Outcome::kInvalidConfig);
  EXPECT_EQ(RunKernel("x[i]").outcome, Outcome::kOk);
}

TEST_F(CheckerTest, HasItsOwnDynamicSharedMemory) {
  ASSERT_TRUE(PrepareChecked(kRight).ok());
  LaunchPlan launch = Grid(4, 256);
  launch.shared_bytes = 256 * sizeof(float);
  const auto run = [&](const std::string& at) {
    return Run("variant",
               "extern \"C\" __global__ void variant(const float* x, float* y, int n) {\n"
               "  extern __shared__ float tile[];\n"
               "  const int i = blockIdx.x * 256 + threadIdx.x;\n"
               "  if (i < n) tile[" +
                   at + "] = x[i], y[i] = tile[" + at + "];\n}\n",
               launch);
  };
  const RunReport within = run("threadIdx.x");
  EXPECT_EQ(within.outcome, Outcome::kOk) << within.message;
  const RunReport beyond = run("threadIdx.x + 1");
  EXPECT_EQ(beyond.outcome, Outcome::kWrongResult);
  EXPECT_THAT(beyond.message, HasSubstr("wrote outside its 1024 bytes of dynamic shared memory"));
}

TEST_F(CheckerTest, RefusesACheckerThatAcceptsUnwrittenOutputs) {
  ExpectRefused("", "finds no fault in outputs that nobody wrote");
}

TEST_F(CheckerTest, RefusesACheckerThatWritesOutsideItsFaults) {
  ExpectRefused("if (i == 0) const_cast<float*>(x)[3] = 1;\n", "wrote to its input 'x'");
  ExpectRefused("if (i == 0) const_cast<float*>(y)[n] = 1;\n", "wrote outside buffer 'y'");
  ASSERT_TRUE(PrepareChecked(kRight).ok());
}

TEST_F(CheckerTest, RefusesACheckerWhoseAssertionFails) {
  ExpectRefused("assert(i < 0);\n", "assert");
}

TEST_F(CheckerTest, RefusesACheckerThatRejectsTheReferencesOutputs) {
  ProblemPlan plan;
  const BufferPlan x = Buffer("x", kCount, Role::kInput, DType::kI32);
  const BufferPlan y = Buffer("y", kCount, Role::kOutput, DType::kI32);
  plan.buffers = {x, y};
  CompilePlan source = Source("check",
                              "#include \"tune_check.h\"\nextern \"C\" __global__ void check("
                              "const int* y, const int* right, TuneFaults* faults) {\n"
                              "  if (y[5] != right[5] + 1) TuneFault(faults, 5, \"off\");\n}\n");
  source.headers = {{"tune_check.h", std::string(embedded::tune_check_header)}};
  BufferPlan judged = y;
  judged.role = Role::kInput;
  BufferPlan right = judged;
  right.name = ReferenceBufferName("y");
  plan.checker = {source, {Step("check", Grid(1, 1), {judged, right, Faults()})}};
  plan.checker_binary = Compile(source);
  plan.files = {{"y", DType::kI32, std::string(kCount * sizeof(int), '\1'), /*expected=*/true}};
  const absl::Status prepared = runner_->Prepare(plan, "", /*seed=*/7);
  EXPECT_THAT(std::string(prepared.message()),
              HasSubstr("the checker is wrong, or the reference is: of the reference's outputs, "
                        "the checker finds 1 fault, at 5: off"));
}

}  // namespace
}  // namespace tune::cpu
