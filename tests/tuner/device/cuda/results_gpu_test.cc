// SPDX-License-Identifier: Apache-2.0
// Whether the runner tells right variants from wrong ones.
#include <string>

#include "tests/tuner/device/cuda/gpu_fixture.h"

namespace tune::cuda {
namespace {

using ::testing::HasSubstr;

class ResultsGpuTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    absl::Status status = PrepareDoubling(1'000'003);  // no multiple of anything
    ASSERT_TRUE(status.ok()) << status;
  }

  // After a wrong variant the next right one must be measured as if nothing had happened.
  void ExpectUnharmed() {
    RunReport report = Run(Doubling(kGood));
    EXPECT_EQ(report.outcome, Outcome::kOk) << report.message;
  }
};

TEST_F(ResultsGpuTest, RightResult) {
  RunReport report = Run(Doubling(kGood));
  ASSERT_EQ(report.outcome, Outcome::kOk) << report.message;
  EXPECT_GE(report.samples_ns.size(), 20u);
  EXPECT_EQ(report.error.bad_elements, 0u);
  EXPECT_EQ(report.error.max_abs, 0);
  EXPECT_GT(report.resources.registers, 0);
}

TEST_F(ResultsGpuTest, WrongResultNamesTheWorstElement) {
  RunReport report =
      Run(Doubling("if (i < n) y[i] = 2.0f * x[i] + (i == 4321 ? 3.0f : i == 99 ? 1.0f : 0.0f);"));
  ASSERT_EQ(report.outcome, Outcome::kWrongResult);
  EXPECT_THAT(report.message, HasSubstr("y[4321] is "));
  EXPECT_THAT(report.message, HasSubstr("2 of 1000003 elements are wrong"));
  EXPECT_EQ(report.error.bad_elements, 2u);
  EXPECT_NEAR(report.error.max_abs, 3.0, 1e-5);
  EXPECT_THAT(report.error.worst, HasSubstr("y[4321]"));
  ExpectUnharmed();
}

TEST_F(ResultsGpuTest, UnwrittenOutput) {
  RunReport report = Run(Doubling("if (i < n - 5) y[i] = 2.0f * x[i];"));
  ASSERT_EQ(report.outcome, Outcome::kWrongResult);
  EXPECT_THAT(report.message, HasSubstr("y[999998]"));
  EXPECT_THAT(report.message, HasSubstr("5 of them NaN or never written"));
  ExpectUnharmed();
}

TEST_F(ResultsGpuTest, WriteJustPastTheEnd) {
  RunReport report = Run(Doubling("if (i <= n) y[i] = 2.0f * (i < n ? x[i] : 1.0f);"));
  ASSERT_EQ(report.outcome, Outcome::kWrongResult);
  EXPECT_THAT(report.message, HasSubstr("wrote outside buffer 'y'"));
  EXPECT_THAT(report.message, HasSubstr("bytes after it, the first 0 bytes past its end"));
  ExpectUnharmed();
}

TEST_F(ResultsGpuTest, WriteBeforeTheStart) {
  RunReport report = Run(Doubling("if (i < n) y[i] = 2.0f * x[i]; if (i == 0) y[-2] = 1.0f;"));
  ASSERT_EQ(report.outcome, Outcome::kWrongResult);
  EXPECT_THAT(report.message, HasSubstr("before it, the first 8 bytes ahead of its start"));
  ExpectUnharmed();
}

TEST_F(ResultsGpuTest, OverwrittenInput) {
  RunReport report = Run(Doubling("if (i < n) { y[i] = 2.0f * x[i]; if (i == 77) x[i] = 0.5f; }"));
  ASSERT_EQ(report.outcome, Outcome::kWrongResult);
  EXPECT_THAT(report.message, HasSubstr("wrote to its input 'x'"));
  ExpectUnharmed();
}

TEST_F(ResultsGpuTest, RightOnlyTheFirstTime) {
  RunReport report =
      Run(Doubling("int before = *(volatile int*)&done; if (i < n && !before) y[i] = 2.0f * x[i];"
                   "__syncthreads(); if (i == n - 1) { __nanosleep(200000); done = 1; }",
                   "__device__ int done;\n"));
  ASSERT_EQ(report.outcome, Outcome::kWrongResult);
  EXPECT_THAT(report.message, HasSubstr("timed launch"));
  ExpectUnharmed();
}

TEST_F(ResultsGpuTest, LaunchesThatTheDeviceCannotDo) {
  RunRequest request = Doubling(kGood);
  request.program.steps[0].launch.block = {2048, 1, 1};
  RunReport report = Run(request);
  EXPECT_EQ(report.outcome, Outcome::kInvalidConfig) << report.message;
  EXPECT_THAT(report.message, HasSubstr("can run 1024"));

  request = Doubling(kGood);
  request.program.steps[0].launch.shared_bytes = 1 << 20;
  report = Run(request);
  EXPECT_EQ(report.outcome, Outcome::kInvalidConfig) << report.message;
  EXPECT_THAT(report.message, HasSubstr("shared memory"));

  request = Doubling(kGood);
  request.program.steps[0].launch.grid = {1, 100'000, 1};
  report = Run(request);
  EXPECT_EQ(report.outcome, Outcome::kInvalidConfig) << report.message;
  EXPECT_THAT(report.message, HasSubstr("CUDA_ERROR_INVALID_VALUE"));

  request = Doubling(kGood);
  request.program.steps[0].launch.grid = {3907, 1, 1};
  request.program.steps[0].launch.cluster = {2, 1, 1};
  report = Run(request);
  EXPECT_EQ(report.outcome, Outcome::kInvalidConfig) << report.message;
  EXPECT_THAT(report.message, HasSubstr("cluster"));
  ExpectUnharmed();
}

TEST_F(ResultsGpuTest, SpecThatDisagreesWithItsSource) {
  RunRequest request = Doubling(kGood);
  request.program.steps[0].args.pop_back();
  RunReport report = Run(request);
  EXPECT_EQ(report.outcome, Outcome::kLaunchFailed);
  EXPECT_THAT(report.message, HasSubstr("takes more parameters than the 2 args"));

  request = Doubling(kGood);
  request.program.steps[0].args[2] = ScalarPlan{"n", DType::kI32, Value(int64_t{5})};
  report = Run(request);
  EXPECT_EQ(report.outcome, Outcome::kLaunchFailed);
  EXPECT_THAT(report.message, HasSubstr("has 8 bytes; arg 2 of its spec has 4"));

  request = Doubling(kGood);
  request.program.steps[0].launch.entry = "nothing";
  report = Run(request);
  EXPECT_EQ(report.outcome, Outcome::kLaunchFailed);
  EXPECT_THAT(report.message, HasSubstr("CUDA_ERROR_NOT_FOUND"));

  request = Doubling(kGood);
  request.program.binary = "this is no cubin, and long enough to be looked at";
  report = Run(request);
  EXPECT_EQ(report.outcome, Outcome::kLaunchFailed) << report.message;
  ExpectUnharmed();
}

TEST_F(ResultsGpuTest, UsesAllOfSharedMemory) {
  RunRequest request = Doubling(
      "extern __shared__ float tile[]; tile[threadIdx.x] = i < n ? x[i] : 0.0f; __syncthreads();"
      "if (i < n) y[i] = 2.0f * tile[threadIdx.x];");
  request.program.steps[0].launch.shared_bytes = runner().info().max_shared_bytes;
  RunReport report = Run(request);
  EXPECT_EQ(report.outcome, Outcome::kOk) << report.message;
  EXPECT_EQ(report.resources.dynamic_shared_bytes, runner().info().max_shared_bytes);
}

TEST_F(ResultsGpuTest, LaunchesClusters) {
  if (sm() < 90) GTEST_SKIP() << "clusters need sm_90";
  for (int64_t blocks : {2, 8, 16}) {
    if (blocks == 16 && sm() >= 120) continue;  // eight is the most there
    RunRequest request = Doubling(
        "unsigned blocks; asm(\"mov.u32 %0, %%cluster_nctaid.x;\" : \"=r\"(blocks));"
        "if (i < n) y[i] = (blocks == " +
        std::to_string(blocks) + " ? 2.0f : 3.0f) * x[i];");
    request.program.steps[0].launch.grid = {3920, 1, 1};
    request.program.steps[0].launch.cluster = {blocks, 1, 1};
    RunReport report = Run(request);
    EXPECT_EQ(report.outcome, Outcome::kOk) << blocks << ": " << report.message;
  }
}

// Scratch whose size is the config's own business, of a buffer the problem does not list.
TEST_F(ResultsGpuTest, GivesVariantsTheirScratch) {
  for (int64_t size : {256, 1024, 512}) {
    RunRequest request;
    request.program.steps.emplace_back();
    request.program.binary = CompileText(R"(
extern "C" __global__ void variant(const float* x, float* y, long long n, float* scratch) {
  scratch[threadIdx.x] = 2.0f;
  __syncthreads();
  for (long long i = threadIdx.x; i < n; i += blockDim.x) y[i] = scratch[threadIdx.x] * x[i];
})",
                                         "variant");
    request.program.steps[0].launch.entry = "variant";
    request.program.steps[0].launch.block = {256, 1, 1};
    request.program.steps[0].args = Doubling(kGood).program.steps[0].args;
    request.program.steps[0].args.push_back(Buffer("scratch", DType::kF32, size, Role::kScratch));
    RunReport report = Run(request);
    EXPECT_EQ(report.outcome, Outcome::kOk) << report.message;
  }
  RunRequest request = Doubling(kGood);
  request.program.steps[0].args[1] = Buffer("y", DType::kF32, 5, Role::kOutput);
  RunReport report = Run(request);
  EXPECT_EQ(report.outcome, Outcome::kInvalidConfig);
  EXPECT_THAT(report.message, HasSubstr("not as the problem has it"));
}

TEST_F(ResultsGpuTest, RestoresInOutBuffersBeforeEveryLaunch) {
  ProblemPlan plan;
  plan.buffers = {Buffer("y", DType::kBF16, 5001, Role::kInOut)};
  plan.reference.steps = {{.launch = Launch1d("reference", 5001, 128),
                           .args = {Buffer("y", DType::kF64, 5001, Role::kInOut)}}};
  plan.tolerances = {{DType::kBF16, {1e-2, 1e-2}}};
  absl::Status status = runner().Prepare(plan,
                                         CompileText(R"(
extern "C" __global__ void reference(double* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 5001) y[i] = y[i] * 3.0 + 1.0;
})",
                                                     "reference"),
                                         1);
  ASSERT_TRUE(status.ok()) << status;
  RunRequest request;
  request.program.steps.emplace_back();
  request.program.binary = CompileText(R"(
#include <cuda_bf16.h>
extern "C" __global__ void variant(__nv_bfloat16* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 5001) y[i] = __float2bfloat16(__bfloat162float(y[i]) * 3.0f + 1.0f);
})",
                                       "variant");
  request.program.steps[0].launch = Launch1d("variant", 5001, 128);
  request.program.steps[0].args = {plan.buffers[0]};
  for (CacheMode mode : {CacheMode::kCold, CacheMode::kWarm}) {
    request.policy.cache_mode = mode;
    RunReport report = Run(request);
    EXPECT_EQ(report.outcome, Outcome::kOk) << report.message;
    EXPECT_LT(report.error.relative_l2, 1e-2);
  }
}

TEST_F(ResultsGpuTest, ReferencesAreHeldToTheSameRules) {
  ProblemPlan plan;
  plan.buffers = {Buffer("y", DType::kF32, 100, Role::kOutput)};
  plan.reference.steps = {{.launch = Launch1d("reference", 100, 128),
                           .args = {Buffer("y", DType::kF64, 100, Role::kOutput)}}};
  absl::Status status =
      runner().Prepare(plan,
                       CompileText("extern \"C\" __global__ void reference(double* y) { "
                                   "if (threadIdx.x < 90) y[threadIdx.x] = 1; }",
                                   "reference"),
                       1);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("leaves 10 of 100 elements of 'y' unwritten or NaN"));
  EXPECT_THAT(status.message(), HasSubstr("at 90"));

  plan.buffers[0].count = int64_t{1} << 44;
  plan.reference.steps[0].args = {Buffer("y", DType::kF64, int64_t{1} << 44, Role::kOutput)};
  status = runner().Prepare(plan, "", 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("GiB"));

  RunRequest request;
  EXPECT_EQ(runner().Run(request).status().code(), absl::StatusCode::kFailedPrecondition);
  status = PrepareDoubling(1000);
  ASSERT_TRUE(status.ok()) << status;
  ExpectUnharmed();
}

// Two-dimensional tiles by the bulk copy engine: in by one map, out by another.
constexpr char kTensorMapCopy[] = R"(
struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };
extern "C" __global__ void variant(const unsigned short* x, unsigned short* y,
                                   const __grid_constant__ CUtensorMap from,
                                   const __grid_constant__ CUtensorMap to) {
  __shared__ alignas(1024) unsigned short tile[8 * 64];
  __shared__ alignas(8) unsigned long long barrier;
  unsigned tile_at = (unsigned)__cvta_generic_to_shared(tile);
  unsigned barrier_at = (unsigned)__cvta_generic_to_shared(&barrier);
  int column = blockIdx.x * 64;
  int row = blockIdx.y * 8;
  if (threadIdx.x != 0) return;
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier_at));
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :: "r"(barrier_at), "r"(8 * 64 * 2) : "memory");
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3}], [%4];"
               :: "r"(tile_at), "l"(&from), "r"(column), "r"(row), "r"(barrier_at) : "memory");
  unsigned done = 0;
  for (int tries = 0; !done; ++tries) {
    if (tries > 1000000) __trap();
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; "
                 "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(barrier_at) : "memory");
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
               :: "l"(&to), "r"(tile_at), "r"(column), "r"(row) : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
})";

TEST_F(ResultsGpuTest, CopiesThroughTensorMaps) {
  if (sm() < 90) GTEST_SKIP() << "tensor maps need sm_90";
  constexpr int64_t kRows = 96;
  constexpr int64_t kColumns = 256;
  ProblemPlan plan;
  plan.buffers = {Buffer("x", DType::kBF16, kRows * kColumns, Role::kInput),
                  Buffer("y", DType::kBF16, kRows * kColumns, Role::kOutput)};
  plan.reference.steps = {
      {.launch = Launch1d("reference", kRows * kColumns, 256),
       .args = {plan.buffers[0], Buffer("y", DType::kF32, kRows * kColumns, Role::kOutput)}}};
  absl::Status status = runner().Prepare(plan,
                                         CompileText(R"(
extern "C" __global__ void reference(const unsigned short* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = __uint_as_float((unsigned)x[i] << 16);
})",
                                                     "reference"),
                                         3);
  ASSERT_TRUE(status.ok()) << status;
  RunRequest request;
  request.program.steps.emplace_back();
  request.program.binary = CompileText(kTensorMapCopy, "variant");
  request.program.steps[0].launch.entry = "variant";
  request.program.steps[0].launch.grid = {kColumns / 64, kRows / 8, 1};
  request.program.steps[0].launch.block = {32, 1, 1};
  const TensorMapPlan from = {.name = "from",
                              .buffer = plan.buffers[0],
                              .dims = {kColumns, kRows},
                              .strides_bytes = {kColumns * 2},
                              .box = {64, 8},
                              .swizzle_bytes = 128,
                              .l2_promotion_bytes = 128};
  const TensorMapPlan to = {.name = "to",
                            .buffer = plan.buffers[1],
                            .dims = {kColumns, kRows},
                            .strides_bytes = {kColumns * 2},
                            .box = {64, 8},
                            .swizzle_bytes = 128};
  request.program.steps[0].args = {plan.buffers[0], plan.buffers[1], from, to};
  RunReport report = Run(request);
  EXPECT_EQ(report.outcome, Outcome::kOk) << report.message;
  EXPECT_EQ(report.error.max_abs, 0);
}

}  // namespace
}  // namespace tune::cuda
