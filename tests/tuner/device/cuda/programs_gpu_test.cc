// SPDX-License-Identifier: Apache-2.0
// Programs of several launches on a GPU: results, and what a time goes over.
#include "tests/tuner/device/cuda/gpu_fixture.h"

namespace tune::cuda {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kProgramElements = 1 << 22;
constexpr int64_t kBlocks = 256;
constexpr char kSums[] = R"(
__device__ float BlockSum(const float* x, long long n) {
  __shared__ float sums[256];
  float sum = 0;
  for (long long i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) sum += x[i];
  sums[threadIdx.x] = sum;
  for (int half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  return sums[0];
}
extern "C" __global__ void partial(const float* x, float* sums, long long n) {
  const float sum = BlockSum(x, n);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
extern "C" __global__ void add(const float* x, float* sums, long long n) {
  const float sum = BlockSum(x, n);
  if (threadIdx.x == 0) atomicAdd(&sums[blockIdx.x % 16], sum);
}
extern "C" __global__ void combine(float* y, const float* sums, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += sums[i];
  if (threadIdx.x == 0) y[0] = sum;
})";

class ProgramsGpuTest : public GpuTest {
 protected:
  void PrepareSum() {
    x_ = Buffer("x", DType::kF32, kProgramElements, Role::kInput);
    x_.fill = {.kind = Fill::Kind::kUniform, .low = 0, .high = 1};
    y_ = Buffer("y", DType::kF32, 1, Role::kOutput);
    sums_ = Buffer("sums", DType::kF32, kBlocks, Role::kScratch);
    ProblemPlan plan;
    plan.buffers = {x_, y_};
    plan.reference.steps = {{.launch = Launch1d("reference", 1, 1),
                             .args = {x_, Buffer("y", DType::kF64, 1, Role::kOutput), N()}}};
    plan.tolerances = {{DType::kF32, {1e-4, 1e-4}}};
    const absl::Status prepared = runner().Prepare(plan,
                                                   CompileText(R"(
extern "C" __global__ void reference(const float* x, double* y, long long n) {
  double sum = 0;
  for (long long i = 0; i < n; ++i) sum += x[i];
  y[0] = sum;
})",
                                                               "reference"),
                                                   /*seed=*/7);
    ASSERT_TRUE(prepared.ok()) << prepared;
  }

  static ScalarPlan N() { return {"n", DType::kI64, Value(kProgramElements)}; }

  RunRequest Sum(bool zeroed) {
    RunRequest request;
    request.program.binary = CompileText(kSums, "combine");
    const std::string first = zeroed ? "add" : "partial";
    const int64_t count = zeroed ? 16 : kBlocks;
    request.program.steps = {
        {.launch = Launch1d(first, kBlocks * 256, 256), .args = {x_, sums_, N()}},
        {.launch = Launch1d("combine", 32, 32),
         .args = {y_, sums_, ScalarPlan{"count", DType::kI32, Value(count)}}}};
    if (zeroed) request.program.steps[0].zero = {sums_};
    return request;
  }

  BufferPlan x_;
  BufferPlan y_;
  BufferPlan sums_;
};

TEST_F(ProgramsGpuTest, TwoStepsGiveOneResultAndOneTime) {
  PrepareSum();
  for (const bool zeroed : {false, true}) {
    for (const CacheMode mode : {CacheMode::kCold, CacheMode::kWarm}) {
      RunRequest request = Sum(zeroed);
      request.policy.cache_mode = mode;
      const RunReport report = Run(request);
      ASSERT_EQ(report.outcome, Outcome::kOk) << report.message;
      EXPECT_GE(report.samples_ns.size(), 20u);
      EXPECT_EQ(report.clock, runner().info().clock);
      EXPECT_GT(report.resources.registers, 0);
      EXPECT_EQ(report.resources.static_shared_bytes, 1024) << "the most of both";
    }
  }
}

TEST_F(ProgramsGpuTest, WithoutZeroingTheSumGrows) {
  PrepareSum();
  RunRequest request = Sum(true);
  request.program.steps[0].zero.clear();
  EXPECT_EQ(Run(request).outcome, Outcome::kWrongResult);
}

TEST_F(ProgramsGpuTest, ATimeGoesFromTheFirstStartToTheLastEnd) {
  PrepareSum();
  const auto time_of = [&](int repeats, bool zeroed) {
    RunRequest request = Sum(zeroed);
    for (int i = 0; i < repeats; ++i) {
      const StepPlan first = request.program.steps[0];
      request.program.steps.insert(request.program.steps.begin(), first);
    }
    request.policy.cache_mode = CacheMode::kWarm;
    const RunReport report = Run(request);
    EXPECT_EQ(report.outcome, Outcome::kOk) << report.message;
    return Median(report.samples_ns);
  };
  const double one = time_of(0, false);
  const double nine = time_of(8, false);
  std::printf("one first step: %.0f ns, nine: %.0f ns, with zeroing: %.0f and %.0f ns\n", one, nine,
              time_of(0, true), time_of(8, true));
  EXPECT_GT(nine, 4 * one * 0.7);
  EXPECT_LT(nine, 12 * one);
}

TEST_F(ProgramsGpuTest, AFaultOfTheSecondStepIsLaunchTrouble) {
  PrepareSum();
  RunRequest request = Sum(false);
  request.program.steps[1].launch.entry = "nothing";
  const RunReport report = Run(request);
  EXPECT_EQ(report.outcome, Outcome::kLaunchFailed);
  EXPECT_THAT(report.message, HasSubstr("nothing"));
}

}  // namespace
}  // namespace tune::cuda
