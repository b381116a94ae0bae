// SPDX-License-Identifier: Apache-2.0
// Faults of variants, and the CPU runner's reports of them.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/tuner/device/cpu/runner_fixture.h"

namespace tune::cpu {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr int64_t kElements = 5000;

constexpr char kScale[] = R"(
extern "C" __global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i] + 1.0f;
})";

class FaultTest : public RunnerTest {
 protected:
  void SetUp() override {
    const absl::Status prepared =
        Prepare("scale", kScale, Grid(40, 128),
                {Buffer("x", kElements, Role::kInput), Buffer("y", kElements, Role::kOutput),
                 Int("n", kElements)});
    ASSERT_TRUE(prepared.ok()) << prepared;
  }
  // A kernel of the same signature.
  RunReport RunBody(const std::string& body) {
    return Run("variant",
               "extern \"C\" __global__ void variant(float* x, float* y, int n) {\n"
               "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n" +
                   body + "}\n",
               Grid(40, 128));
  }
  void ExpectStillUsable() {
    const RunReport report = Run("scale", kScale, Grid(40, 128));
    EXPECT_EQ(report.outcome, Outcome::kOk) << report.message;
  }
};

TEST_F(FaultTest, ARightVariantIsTimed) {
  const RunReport report = Run("scale", kScale, Grid(20, 256));
  EXPECT_EQ(report.outcome, Outcome::kOk) << report.message;
  ASSERT_THAT(report.samples_ns, SizeIs(3));
  for (double ns : report.samples_ns) EXPECT_GT(ns, 0);
  EXPECT_EQ(report.clock, Clock::kHost);
  EXPECT_FALSE(report.stopped_early);
  EXPECT_EQ(report.error.bad_elements, 0u);
  EXPECT_THAT(report.error.worst, HasSubstr("reference"));
}

TEST_F(FaultTest, AWrongElementIsNamed) {
  const RunReport report = RunBody("if (i < n) y[i] = i == 12 ? 100.0f : 2.0f * x[i] + 1.0f;\n");
  EXPECT_EQ(report.outcome, Outcome::kWrongResult);
  EXPECT_THAT(report.message, HasSubstr("y[12] is 100, the reference "));
  EXPECT_THAT(report.message, HasSubstr("1 of 5000 elements are wrong"));
  EXPECT_EQ(report.error.bad_elements, 1u);
  EXPECT_GT(report.error.max_abs, 90);
  EXPECT_GT(report.error.relative_l2, 0);
  EXPECT_THAT(report.error.worst, HasSubstr("y[12]: 100, reference "));
  EXPECT_TRUE(report.samples_ns.empty());
  ExpectStillUsable();
}

TEST_F(FaultTest, AnUnwrittenElementIsSeen) {
  const RunReport report = RunBody("if (i < n && i != 4999) y[i] = 2.0f * x[i] + 1.0f;\n");
  EXPECT_EQ(report.outcome, Outcome::kWrongResult);
  EXPECT_THAT(report.message, HasSubstr("y[4999] is"));
  EXPECT_THAT(report.message, HasSubstr("NaN or never written"));
}

TEST_F(FaultTest, ANanIsWrong) {
  const RunReport report =
      RunBody("if (i < n) y[i] = i == 3 ? sqrtf(-1.0f) : 2.0f * x[i] + 1.0f;\n");
  EXPECT_EQ(report.outcome, Outcome::kWrongResult);
  EXPECT_THAT(report.message, HasSubstr("y[3]"));
}

TEST_F(FaultTest, AWritePastTheEndIsSeen) {
  const RunReport report = RunBody("if (i <= n) y[i] = i < n ? 2.0f * x[i] + 1.0f : 0.0f;\n");
  EXPECT_EQ(report.outcome, Outcome::kWrongResult);
  EXPECT_THAT(report.message, HasSubstr("wrote outside buffer 'y': 4 bytes after it, the nearest 0 "
                                        "bytes past its end"));
  ExpectStillUsable();
}

TEST_F(FaultTest, AWriteAheadOfTheStartIsSeen) {
  const RunReport report =
      RunBody("if (i == 0) y[-2] = 0.0f;\nif (i < n) y[i] = 2.0f * x[i] + 1.0f;\n");
  EXPECT_EQ(report.outcome, Outcome::kWrongResult);
  EXPECT_THAT(report.message, HasSubstr("before it, the nearest 5 bytes ahead of its start"));
  ExpectStillUsable();
}

TEST_F(FaultTest, AnOverwrittenInputIsSeen) {
  const RunReport report = RunBody("if (i < n) { y[i] = 2.0f * x[i] + 1.0f; x[i] = 0.0f; }\n");
  EXPECT_EQ(report.outcome, Outcome::kWrongResult);
  EXPECT_THAT(report.message, HasSubstr("wrote to its input 'x'"));
  ExpectStillUsable();
}

TEST_F(FaultTest, AMaskWithoutTheCallersLaneIsRefused) {
  const RunReport report = RunBody("if (i < n) y[i] = __shfl_sync(3u << 4, x[i], 4);\n");
  EXPECT_EQ(report.outcome, Outcome::kLaunchFailed);
  EXPECT_THAT(report.message, HasSubstr("line 3: thread (0,0,0) calls a warp operation"));
  ExpectStillUsable();
}

TEST_F(FaultTest, ABarrierThatSomeNeverReachIsADeadlock) {
  const RunReport report = RunBody(
      "if (threadIdx.x == 5) { __syncwarp(0x60u); }\n"
      "else if (threadIdx.x != 6) { __syncthreads(); }\n"
      "else { __syncthreads(); __syncwarp(0x60u); }\n");
  EXPECT_EQ(report.outcome, Outcome::kLaunchFailed);
  EXPECT_THAT(report.message, HasSubstr("deadlock in block ("));
  EXPECT_THAT(report.message, HasSubstr("for __syncthreads"));
  EXPECT_THAT(report.message, HasSubstr("waits at line 3 for the lanes 0x60 of its warp"));
  ExpectStillUsable();
}

// A kernel that writes one element of 4 bytes at `index` of 64 in shared memory, as one thread.
std::string WritesShared(const std::string& declaration, const std::string& index) {
  return absl::StrCat(R"(
extern "C" __global__ void variant(float* x, float* y, int n) {
  )",
                      declaration, R"(
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x % 64] = 1.0f;
  __syncthreads();
  if (i == 0) for (int k = n * 0; k < 1; ++k) tile[)",
                      index, R"(] = 5.0f;
  __syncthreads();
  if (i < n) y[i] = 2.0f * x[i] + 1.0f + 0.0f * tile[(threadIdx.x + 1) % 64];
})");
}

struct Overflow {
  const char* index;
  const char* where;
};
constexpr Overflow kOverflows[] = {
    {"64 + k", ": 4 bytes after it, the nearest 0 bytes past its end"},
    {"1064 + k", ": 4 bytes after it, the nearest 4000 bytes past its end"},
    {"12064 + k", ": 4 bytes after it, the nearest 48000 bytes past its end"},
    {"k - 1", ": 4 bytes before it, the nearest 1 bytes ahead of its start"},
    {"k - 5000", ": 4 bytes before it, the nearest 19997 bytes ahead of its start"},
};

TEST_F(FaultTest, AWriteOutsideOfDynamicSharedMemoryIsSeen) {
  for (const auto& [index, where] : kOverflows) {
    const RunReport report = Run("variant", WritesShared("extern __shared__ float tile[];", index),
                                 Grid(40, 128, 64 * sizeof(float)));
    EXPECT_EQ(report.outcome, Outcome::kWrongResult) << index;
    EXPECT_THAT(
        report.message,
        HasSubstr(absl::StrCat("wrote outside its 256 bytes of dynamic shared memory", where)));
    ExpectStillUsable();
  }
}

TEST_F(FaultTest, AWriteOutsideOfAStaticSharedArrayIsSeen) {
  for (const auto& [index, where] : kOverflows) {
    const RunReport report =
        Run("variant", WritesShared("__shared__ float tile[64];", index), Grid(40, 128));
    EXPECT_EQ(report.outcome, Outcome::kWrongResult) << index;
    EXPECT_THAT(report.message,
                HasSubstr(absl::StrCat("wrote outside shared variable 'variant::tile' of 256 bytes",
                                       where)));
    ExpectStillUsable();
  }
}

// Arrays in a template, among several, aligned, and overrun by a loop that goes one too far.
TEST_F(FaultTest, EveryKindOfStaticSharedArrayIsGuarded) {
  const std::pair<const char*, const char*> kernels[] = {{"variant::last", R"(
extern "C" __global__ void variant(float* x, float* y, int n) {
  __shared__ float first[64], last[32];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  first[threadIdx.x % 64] = x[0];
  if (threadIdx.x == 0) for (int k = 0; k <= 32; ++k) last[k] = x[k];
  __syncthreads();
  if (i < n) y[i] = 2.0f * x[i] + 1.0f + 0.0f * (first[n % 64] + last[n % 32]);
})"},
                                                         {"fill<8>(float const*, float*)::tile", R"(
template <int kElements> __device__ void fill(const float* x, float* y) {
  __shared__ __align__(128) float tile[kElements][4];
  for (int k = 0; k <= kElements; ++k) tile[k][threadIdx.x % 4] = *x;
  __syncthreads();
  *y = 2.0f * *x + 1.0f + 0.0f * tile[kElements / 2][0];
}
extern "C" __global__ void variant(float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) fill<8>(x + i, y + i);
})"},
                                                         {"(anonymous namespace)::table", R"(
namespace { __shared__ int table[3]; }
extern "C" __global__ void variant(float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  table[threadIdx.x % 4] = i;
  __syncthreads();
  if (i < n) y[i] = 2.0f * x[i] + 1.0f + (table[i % 3] < 0);
})"}};
  for (const auto& [name, text] : kernels) {
    const RunReport report = Run("variant", text, Grid(40, 128));
    EXPECT_EQ(report.outcome, Outcome::kWrongResult) << report.message;
    EXPECT_THAT(report.message,
                HasSubstr(absl::StrCat("wrote outside shared variable '", name, "' of ")));
    EXPECT_THAT(report.message, HasSubstr(" bytes after it, the nearest 0 bytes past its end"));
    ExpectStillUsable();
  }
}

TEST_F(FaultTest, AReferenceThatOverflowsSharedMemoryIsAtFault) {
  const absl::Status prepared =
      Prepare("variant", WritesShared("__shared__ float tile[64];", "64 + k"), Grid(40, 128),
              {Buffer("x", kElements, Role::kInput), Buffer("y", kElements, Role::kOutput),
               Int("n", kElements)});
  EXPECT_TRUE(absl::IsInvalidArgument(prepared));
  EXPECT_THAT(std::string(prepared.message()),
              HasSubstr("the reference wrote outside shared variable 'variant::tile'"));
}

TEST_F(FaultTest, AFailingAssertIsAFault) {
  for (const char* header : {"", "#include <assert.h>\n", "#include <cassert>\n"}) {
    const RunReport report = Run("variant", absl::StrCat(header, R"(
extern "C" __global__ void variant(float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  assert(i < n && "within");
  if (i < n) y[i] = 2.0f * x[i] + 1.0f;
})"),
                                 Grid(40, 128));
    EXPECT_EQ(report.outcome, Outcome::kFaulted) << report.message;
    const int line = *header == '\0' ? 4 : 5;
    EXPECT_THAT(report.message, HasSubstr(absl::StrCat(
                                    "variant.cu:", line,
                                    ": assertion failed: i < n && \"within\", in block (39,0,0), "
                                    "thread (8,0,0)")));
    ExpectStillUsable();
  }
}

TEST_F(FaultTest, AnAssertIsLeftOutOnlyWhereTheKernelSaysSo) {
  constexpr char kBody[] = R"(
extern "C" __global__ void variant(float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  assert(i < 3);
  if (i < n) y[i] = 2.0f * x[i] + 1.0f;
})";
  EXPECT_EQ(Run("variant", kBody, Grid(40, 128)).outcome, Outcome::kFaulted);
  CompilePlan plan = Source("variant", kBody);
  plan.options = {"-DNDEBUG"};
  const RunReport report =
      Run({.steps = {Step("variant", Grid(40, 128), args_)}, .binary = Compile(plan)});
  EXPECT_EQ(report.outcome, Outcome::kOk) << report.message;
  EXPECT_EQ(Run("variant", absl::StrCat("#define NDEBUG\n#include <cassert>", kBody), Grid(40, 128))
                .outcome,
            Outcome::kOk);
}

TEST_F(FaultTest, LaunchesBeyondTheLimitsAreInvalid) {
  for (const LaunchPlan& launch :
       {Grid(1, 1025), Grid(0, 128), Grid(40, 128, runner_->info().max_shared_bytes + 1)}) {
    const RunReport report = Run("scale", kScale, launch);
    EXPECT_EQ(report.outcome, Outcome::kInvalidConfig);
    EXPECT_THAT(report.message, HasSubstr("possible"));
  }
  ExpectStillUsable();
}

TEST_F(FaultTest, OtherParametersThanTheSpecsAreRefused) {
  const RunReport report =
      Run("variant", "extern \"C\" __global__ void variant(float* x, float* y) {}", Grid(1, 1));
  EXPECT_EQ(report.outcome, Outcome::kLaunchFailed);
  EXPECT_THAT(report.message, HasSubstr("the kernel takes 2 parameters; its spec has 3 args"));
  ExpectStillUsable();
}

TEST_F(FaultTest, AHopelessVariantIsNotRepeated) {
  policy_.rival_latency_ns = 1;
  const RunReport report = RunBody(R"(
    volatile float slow = 0;
    for (int k = 0; k < 20000; ++k) slow = slow + 1.0f;
    if (i < n) y[i] = 2.0f * x[i] + 1.0f;
)");
  EXPECT_EQ(report.outcome, Outcome::kOk) << report.message;
  EXPECT_TRUE(report.stopped_early);
  EXPECT_THAT(report.samples_ns, SizeIs(1));
}

TEST_F(FaultTest, AVariantIsNotBlamedIfTheWorkerHasNoFilesLeft) {
  RunRequest request;
  request.program = {.steps = {Step("scale", Grid(40, 128), args_)},
                     .binary = Compile(Source("scale", kScale))};
  request.policy = policy_;
  for (int left : {0, 1}) {
    std::vector<int> taken;
    for (int fd = dup(0); fd >= 0; fd = dup(0)) taken.push_back(fd);
    for (int i = 0; i < left; ++i, taken.pop_back()) close(taken.back());
    const absl::StatusOr<RunReport> report = runner_->Run(request);
    EXPECT_TRUE(absl::IsResourceExhausted(report.status())) << left << ": " << report.status();
    for (int fd : taken) close(fd);
  }
  ExpectStillUsable();
}

TEST_F(RunnerTest, GarbageIsNotLoaded) {
  ProblemPlan plan;
  plan.reference.steps.emplace_back();
  const absl::Status prepared = runner_->Prepare(plan, "not a library", 1);
  EXPECT_TRUE(absl::IsInvalidArgument(prepared));
  EXPECT_THAT(std::string(prepared.message()), HasSubstr("cannot load the kernel"));
}

#if !defined(__SANITIZE_ADDRESS__)
TEST_F(RunnerTest, ASanitizedKernelSaysWhatItNeeds) {
  if (getenv("LD_PRELOAD") != nullptr) GTEST_SKIP() << "the sanitizer may be preloaded";
  setenv("TUNE_CPU_SANITIZE", "1", 1);
  absl::StatusOr<std::unique_ptr<Compiler>> compiler = MakeCompiler();
  unsetenv("TUNE_CPU_SANITIZE");
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  absl::StatusOr<Artifact> variant = (*compiler)->Compile(Source("scale", kScale));
  ASSERT_TRUE(variant.ok()) << variant.status();
  ASSERT_EQ(variant->outcome, Outcome::kOk) << variant->log;
  ProblemPlan plan;
  plan.reference.steps.emplace_back();
  const absl::Status prepared = runner_->Prepare(plan, variant->binary, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(prepared));
  EXPECT_THAT(std::string(prepared.message()), HasSubstr("LD_PRELOAD=$(c++ -print-file-name"));
}
#endif

TEST_F(RunnerTest, AProblemBeyondTheMemoryIsRefusedWithNumbers) {
  ProblemPlan plan;
  plan.buffers = {Buffer("x", runner_->info().memory_bytes, Role::kInput)};
  plan.reference.steps.emplace_back();
  const absl::Status prepared = runner_->Prepare(plan, "", 1);
  EXPECT_TRUE(absl::IsResourceExhausted(prepared));
  EXPECT_THAT(std::string(prepared.message()), HasSubstr("GiB"));
}

TEST_F(RunnerTest, AReferenceThatLeavesElementsIsAtFault) {
  const absl::Status prepared =
      Prepare("some", "extern \"C\" __global__ void some(float* y) { y[threadIdx.x] = 0.0f; }",
              Grid(1, 50), {Buffer("y", 100, Role::kOutput)});
  EXPECT_TRUE(absl::IsInvalidArgument(prepared));
  EXPECT_THAT(std::string(prepared.message()),
              HasSubstr("leaves 50 of 100 elements of 'y' unwritten or NaN, the first of them at "
                        "50"));
}

TEST_F(RunnerTest, TheHostIsKnown) {
  const DeviceInfo& info = runner_->info();
  EXPECT_EQ(info.name.substr(0, 4), "cpu:");
  EXPECT_EQ(info.target, "cpu");
  EXPECT_GE(info.sm_count, 1);
  EXPECT_GT(info.memory_bytes, 1 << 20);
  EXPECT_EQ(info.max_shared_bytes, 1 << 20);
  EXPECT_FALSE(info.uuid.empty());
  EXPECT_FALSE(info.driver.empty());
  EXPECT_EQ(info.clock, Clock::kHost);
  absl::StatusOr<std::unique_ptr<Runner>> second = MakeRunner();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->info().uuid, info.uuid);
}

TEST_F(RunnerTest, CanaryAndCeilings) {
  EXPECT_TRUE(runner_->Canary().ok());
  absl::StatusOr<std::vector<Ceiling>> ceilings = runner_->MeasureCeilings();
  ASSERT_TRUE(ceilings.ok()) << ceilings.status();
  ASSERT_THAT(*ceilings, SizeIs(4));
  for (const Ceiling& ceiling : *ceilings) {
    EXPECT_EQ(ceiling.source, CeilingSource::kMeasured);
    EXPECT_GT(ceiling.value, 1e8) << ceiling.name;
    EXPECT_LT(ceiling.value, 1e17) << ceiling.name;
    RecordProperty(ceiling.name, std::to_string(ceiling.value / 1e9) + " G/s");
  }
}

}  // namespace
}  // namespace tune::cpu
