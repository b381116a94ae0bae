// SPDX-License-Identifier: Apache-2.0
// Kernels that use what CUDA has: each is compared with one that does the same with nothing but
// loops in one thread.
#include <gmock/gmock.h>

#include <chrono>

#include "tests/tuner/device/cpu/runner_fixture.h"

namespace tune::cpu {
namespace {

constexpr int64_t kBlocks = 9;
constexpr int64_t kThreads = 256;
constexpr int64_t kResults = kBlocks * kThreads;

class ResultsTest : public RunnerTest {
 protected:
  // `reference` and `variant` are bodies of (const float* x, float* y, int n); the reference runs
  // one thread a block.
  void ExpectEqual(const std::string& reference, const std::string& variant,
                   int64_t shared_bytes = 0) {
    const std::string head = "(const float* x, float* y, int n) {\n";
    const absl::Status prepared =
        Prepare("reference",
                "extern \"C\" __global__ void reference" + head +
                    "  x += blockIdx.x * 256; y += blockIdx.x * 256;\n" + reference + "}\n",
                Grid(kBlocks, 1),
                {Buffer("x", kResults, Role::kInput), Buffer("y", kResults, Role::kOutput),
                 Int("n", kResults)});
    ASSERT_TRUE(prepared.ok()) << prepared;
    const RunReport report =
        Run("variant",
            "extern \"C\" __global__ void variant" + head +
                "  const int t = threadIdx.x;\n  const unsigned all = 0xffffffffu;\n"
                "  x += blockIdx.x * 256; y += blockIdx.x * 256;\n" +
                variant + "}\n",
            Grid(kBlocks, kThreads, shared_bytes));
    EXPECT_EQ(report.outcome, Outcome::kOk) << report.message;
  }
};

TEST_F(ResultsTest, ElementByElement) {
  ExpectEqual("for (int i = 0; i < 256; ++i) y[i] = x[i] + 3.0f;", "y[t] = x[t] + 3.0f;");
}

TEST_F(ResultsTest, BlockReductionInSharedMemory) {
  ExpectEqual(
      "float sum = 0; for (int i = 0; i < 256; ++i) sum += fabsf(x[i]);\n"
      "for (int i = 0; i < 256; ++i) y[i] = sum;",
      R"(__shared__ float part[256];
         part[t] = fabsf(x[t]);
         __syncthreads();
         for (int half = 128; half > 0; half /= 2) {
           if (t < half) part[t] += part[t + half];
           __syncthreads();
         }
         y[t] = part[0];)");
}

TEST_F(ResultsTest, ShufflesOfEveryDirectionAndWidth) {
  ExpectEqual(
      R"(for (int w = 0; w < 256; w += 32) {
           for (int l = 0; l < 32; ++l) {
             float up = l >= 3 ? x[w + l - 3] : x[w + l];
             float down = l % 8 + 2 < 8 ? x[w + l + 2] : x[w + l];
             float any = x[w + l / 16 * 16 + 5];
             float cross = 0;
             for (int k = 0; k < 32; ++k) cross += floorf(4 * x[w + k]);
             y[w + l] = up + 2 * down + 4 * any + cross;
           }
         })",
      R"(float cross = floorf(4 * x[t]);
         for (int step = 16; step > 0; step /= 2) cross += __shfl_xor_sync(all, cross, step);
         float up = __shfl_up_sync(all, x[t], 3);
         float down = __shfl_down_sync(all, x[t], 2, 8);
         float any = __shfl_sync(all, x[t], 5, 16);
         y[t] = up + 2 * down + 4 * any + cross;)");
}

TEST_F(ResultsTest, BallotsVotesAndMatches) {
  ExpectEqual(
      R"(for (int w = 0; w < 256; w += 32) {
           unsigned bits = 0; int same[32];
           for (int l = 0; l < 32; ++l) bits |= unsigned(x[w + l] > 0) << l;
           for (int l = 0; l < 32; ++l) {
             same[l] = 0;
             for (int k = 0; k < 32; ++k) same[l] += (x[w + k] > 1) == (x[w + l] > 1);
           }
           for (int l = 0; l < 32; ++l) {
             y[w + l] = float(bits >> 16) + 2 * float(bits & 0xffff) + (bits != 0) + same[l];
           }
         })",
      R"(unsigned bits = __ballot_sync(all, x[t] > 0);
         int any = __any_sync(all, x[t] > 0);
         int same = __popc(__match_any_sync(all, int(x[t] > 1)));
         y[t] = float(bits >> 16) + 2 * float(bits & 0xffff) + any + same;)");
}

TEST_F(ResultsTest, PartialMasksMeetOnTheirOwn) {
  ExpectEqual("for (int i = 0; i < 256; ++i) y[i] = x[i / 32 * 32 + i % 32 / 16 * 16];",
              R"(if (t % 32 < 16) {
                   y[t] = __shfl_sync(0x0000ffffu, x[t], 0);
                 } else {
                   y[t] = __shfl_sync(0xffff0000u, x[t], 16);
                 })");
}

TEST_F(ResultsTest, DynamicSharedMemoryIsAligned) {
  ExpectEqual("for (int i = 0; i < 256; ++i) y[i] = x[255 - i];",
              R"(extern __shared__ __align__(128) float tile[];
                 tile[t] = x[t];
                 __syncthreads();
                 bool aligned = reinterpret_cast<unsigned long long>(tile) % 128 == 0;
                 y[t] = aligned ? tile[255 - t] : 0.0f;)",
              kThreads * static_cast<int64_t>(sizeof(float)));
}

TEST_F(ResultsTest, StaticSharedMemoryIsAligned) {
  ExpectEqual("for (int i = 0; i < 256; ++i) y[i] = x[i ^ 1];",
              R"(__shared__ char before;
                 __shared__ alignas(128) float tile[256];
                 before = 1;
                 tile[t] = x[t];
                 __syncthreads();
                 bool aligned = reinterpret_cast<unsigned long long>(tile) % 128 == 0;
                 y[t] = aligned && before == 1 ? tile[t ^ 1] : 0.0f;)");
}

TEST_F(ResultsTest, AtomicsInSharedMemory) {
  ExpectEqual(
      R"(int above = 0; float top = -1e30f;
         for (int i = 0; i < 256; ++i) above += x[i] > 0;
         for (int i = 0; i < 256; ++i) y[i] = above;)",
      R"(__shared__ int above;
         if (t == 0) above = 0;
         __syncthreads();
         if (x[t] > 0) atomicAdd(&above, 1);
         __syncthreads();
         y[t] = above;)");
}

TEST_F(ResultsTest, ThreadsThatReturnDoNotHoldUpABarrier) {
  ExpectEqual("for (int i = 0; i < 256; ++i) y[i] = i < 100 ? x[99 - i] : 5.0f;",
              R"(__shared__ float tile[100];
                 if (t >= 100) { y[t] = 5.0f; return; }
                 tile[t] = x[t];
                 __syncthreads();
                 y[t] = tile[99 - t];)");
}

TEST_F(ResultsTest, BarriersThatCount) {
  ExpectEqual(
      R"(int above = 0; for (int i = 0; i < 256; ++i) above += x[i] > 0;
         for (int i = 0; i < 256; ++i) y[i] = above + 1000 * (above == 256) + 2000 * (above > 0);)",
      R"(int above = __syncthreads_count(x[t] > 0);
         int every = __syncthreads_and(x[t] > 0);
         int some = __syncthreads_or(x[t] > 0);
         y[t] = above + 1000 * (every != 0) + 2000 * (some != 0);)");
}

TEST_F(ResultsTest, AtomicsAcrossBlocks) {
  const char* kernel = R"(extern "C" __global__ void count(int* hits) {
    atomicAdd(&hits[threadIdx.x % 10], 1); })";
  const char* reference = R"(extern "C" __global__ void reference(int* hits) {
    for (int i = 0; i < 10; ++i) hits[i] += 6000; })";
  const Fill ones = {Fill::Kind::kConstant, 1, 0};
  const absl::Status prepared = Prepare("reference", reference, Grid(1, 1),
                                        {Buffer("hits", 10, Role::kInOut, DType::kI32, ones)});
  ASSERT_TRUE(prepared.ok()) << prepared;
  // Right in the last timed launch too: the buffer is restored before each.
  const RunReport report = Run("count", kernel, Grid(1000, 60));
  EXPECT_EQ(report.outcome, Outcome::kOk) << report.message;
}

TEST_F(ResultsTest, IndicesInThreeDimensions) {
  const char* reference = R"(extern "C" __global__ void reference(int* out) {
    for (int i = 0; i < 720; ++i) out[i] = i; })";
  const char* kernel = R"(extern "C" __global__ void place(int* out) {
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 30 + thread; })";
  ASSERT_TRUE(
      Prepare("reference", reference, Grid(1, 1), {Buffer("out", 720, Role::kOutput, DType::kI32)})
          .ok());
  LaunchPlan launch;
  launch.grid = {4, 3, 2};
  launch.block = {5, 3, 2};
  const RunReport report = Run("place", kernel, launch);
  EXPECT_EQ(report.outcome, Outcome::kOk) << report.message;
}

TEST_F(ResultsTest, MeasuresAFiberSwitch) {
  const char* reference = R"(extern "C" __global__ void reference(int* out) {
    for (int i = 0; i < 256; ++i) out[i] = 0; })";
  const char* kernel = R"(extern "C" __global__ void meet(int* out) {
    for (int i = 0; i < 1000; ++i) __syncthreads();
    out[threadIdx.x] = 0; })";
  ASSERT_TRUE(
      Prepare("reference", reference, Grid(1, 1), {Buffer("out", 256, Role::kOutput, DType::kI32)})
          .ok());
  const RunReport report = Run("meet", kernel, Grid(1, 256));
  ASSERT_EQ(report.outcome, Outcome::kOk) << report.message;
  RecordProperty("ns_per_switch", std::to_string(report.samples_ns.back() / (1000.0 * kThreads)));
}

}  // namespace
}  // namespace tune::cpu
