// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tuner/device/cuda/activity_clock.h"
#include "tuner/device/cuda/cuda_runner.h"
#include "tuner/device/cuda/tensor_map.h"
#include "tuner/device/ptxas_log.h"

namespace tune::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kMicrosecond = 1e3;

TEST(NextBatchTest, TakesTheLeastNumberOfSamplesAtOnce) {
  EXPECT_EQ(NextBatch({}, 0, 35 * kMicrosecond), 20);
}

TEST(NextBatchTest, GrowsWithTheNumberOfSamplesTaken) {
  const SamplePolicy policy = {.samples_max = 2000, .seconds_max = 0.25};
  EXPECT_EQ(NextBatch(policy, 20, 35 * kMicrosecond), 10);
  EXPECT_EQ(NextBatch(policy, 100, 35 * kMicrosecond), 50);
  EXPECT_EQ(NextBatch(policy, 1000, 35 * kMicrosecond), 64);
  EXPECT_EQ(NextBatch(policy, 1990, 35 * kMicrosecond), 10);
}

TEST(NextBatchTest, SpendsLittleOnTheHopeless) {
  SamplePolicy policy;
  policy.rival_latency_ns = 10 * kMicrosecond;
  EXPECT_EQ(NextBatch(policy, 0, 15 * kMicrosecond), 20);
  EXPECT_EQ(NextBatch(policy, 0, 30 * kMicrosecond), 3);
  EXPECT_EQ(NextBatch(policy, 1, 30 * kMicrosecond), 2);
  EXPECT_EQ(NextBatch(policy, 0, 100 * kMicrosecond), 1);
}

TEST(NextBatchTest, KeepsSlowKernelsWithinTheBudget) {
  EXPECT_EQ(NextBatch({}, 0, 10e6), 5);   // 50 ms a batch
  EXPECT_EQ(NextBatch({}, 24, 10e6), 1);  // 250 ms in all
  EXPECT_EQ(NextBatch({}, 0, 3e9), 1);    // one there must be
}

TEST(PtxasLogTest, ReadsTheEntryItIsAskedFor) {
  const char* log =
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'other' for 'sm_90a'\n"
      "ptxas info    : Function properties for other\n"
      "ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 8 registers, used 0 barriers\n"
      "ptxas info    : Compiling entry function 'tuned' for 'sm_90a'\n"
      "ptxas info    : Function properties for tuned\n"
      "ptxas         .     800 bytes stack frame, 4 bytes spill stores, 20 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 1 barriers, 800 bytes cumulative stack size, "
      "1024 bytes smem, 360 bytes cmem[0]\n";
  Resources resources = ParsePtxasLog(log, "tuned");
  EXPECT_EQ(resources.registers, 168);
  EXPECT_EQ(resources.spill_bytes, 24);
  EXPECT_EQ(resources.stack_bytes, 800);
  EXPECT_EQ(resources.static_shared_bytes, 1024);
  EXPECT_EQ(ParsePtxasLog(log, "tune").registers, 0);
  EXPECT_EQ(ParsePtxasLog(log, "other").registers, 8);
}

TEST(TensorMapTest, SaysWhichRuleIsBroken) {
  const DriverApi driver;  // no plan below gets as far as the driver
  const TensorMapPlan good = {.name = "map",
                              .buffer = {.name = "x"},
                              .dims = {64, 32},
                              .strides_bytes = {128},
                              .box = {64, 8},
                              .swizzle_bytes = 128};
  auto error = [&driver](const TensorMapPlan& plan, int64_t count = 64 * 32) {
    return std::string(EncodeTensorMap(driver, plan, DType::kBF16, 0, count).status().message());
  };
  TensorMapPlan plan = good;
  plan.box = {64};
  EXPECT_THAT(error(plan), HasSubstr("2 dims but 1 in box"));
  plan = good;
  plan.strides_bytes = {};
  EXPECT_THAT(error(plan), HasSubstr("one stride fewer"));
  plan = good;
  plan.strides_bytes = {120};
  EXPECT_THAT(error(plan), HasSubstr("multiples of 16"));
  plan = good;
  plan.box = {64, 257};
  EXPECT_THAT(error(plan), HasSubstr("box[1] is 257"));
  plan = good;
  plan.box = {128, 8};
  EXPECT_THAT(error(plan), HasSubstr("more than its swizzle"));
  plan = good;
  plan.dims = {64, 33};
  EXPECT_THAT(error(plan), HasSubstr("past the end of 'x'"));
  plan = good;
  plan.dims = {64, int64_t{1} << 32};
  plan.strides_bytes = {int64_t{1} << 36};
  EXPECT_THAT(error(plan), HasSubstr("past the end of 'x'"));
  plan = good;
  plan.swizzle_bytes = 256;
  EXPECT_THAT(error(plan), HasSubstr("swizzle_bytes"));
}

TEST(MakeRunnerTest, WithoutADriverSaysWhatToInstall) {
  absl::StatusOr<std::unique_ptr<Runner>> runner = MakeRunner(0);
  if (runner.ok()) GTEST_SKIP() << "this host has a GPU";
  EXPECT_EQ(runner.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(runner.status().message(), HasSubstr("install NVIDIA's driver"));
}

ActivityRecord Kernel(uint64_t begin_ns, uint64_t end_ns) { return {begin_ns, end_ns, false}; }
ActivityRecord Memset(uint64_t begin_ns, uint64_t end_ns) { return {begin_ns, end_ns, true}; }

TEST(SampleDurationsTest, GoFromTheFirstStartToTheLastEnd) {
  EXPECT_THAT(*SampleDurations({Kernel(30, 45), Kernel(10, 20)}, 2, {}), ElementsAre(10, 15));
  EXPECT_THAT(*SampleDurations({Kernel(10, 20), Kernel(25, 40), Kernel(50, 60), Kernel(61, 90)}, 2,
                               {.kernels = 2}),
              ElementsAre(30, 40));
}

TEST(SampleDurationsTest, CountOnlyTheMemsetsOfTheProgram) {
  const std::vector<ActivityRecord> records = {
      Memset(1, 5),   Memset(7, 8),   Kernel(10, 20), Memset(21, 22), Kernel(25, 40),
      Memset(41, 43), Memset(47, 48), Kernel(50, 60), Memset(61, 62), Kernel(63, 90)};
  EXPECT_THAT(*SampleDurations(records, 2, {.kernels = 2, .leading_memsets = 1}),
              ElementsAre(33, 43));
  EXPECT_THAT(*SampleDurations(records, 2, {.kernels = 2, .leading_memsets = 2}),
              ElementsAre(39, 49));
  EXPECT_FALSE(SampleDurations(records, 2, {.kernels = 2, .leading_memsets = 3}).ok());
}

TEST(SampleDurationsTest, FailsIfRecordsWereLost) {
  EXPECT_FALSE(SampleDurations({Kernel(10, 20)}, 2, {}).ok());
  EXPECT_FALSE(SampleDurations({Kernel(10, 20), Kernel(0, 0)}, 2, {}).ok());
  EXPECT_FALSE(SampleDurations({Kernel(10, 20), Kernel(30, 40)}, 1, {}).ok());
}

}  // namespace
}  // namespace tune::cuda
