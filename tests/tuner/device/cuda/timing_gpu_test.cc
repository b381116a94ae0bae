// SPDX-License-Identifier: Apache-2.0
// Whether times are what they should be. Prints what it measured: a run on a new device is read by
// people.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>

#include "tests/tuner/device/cuda/gpu_fixture.h"

namespace tune::cuda {
namespace {

using ::testing::HasSubstr;

using TimingGpuTest = GpuTest;

// A kernel of a known length: spins on the global timer, and never for more than 20 s.
std::string SpinBody(int64_t nanoseconds) {
  return "unsigned long long begin, now; asm volatile(\"mov.u64 %0, %%globaltimer;\" : "
         "\"=l\"(begin)); do { asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(now)); } while "
         "(now - begin < " +
         std::to_string(std::min<int64_t>(nanoseconds, 20'000'000'000)) +
         "ull); if (i < n) y[i] = 2.0f * x[i];";
}

// About 64 multiply-adds for each element and round, in eight chains.
std::string MultiplyAddBody(int rounds) {
  return "float a[8]; for (int k = 0; k < 8; ++k) a[k] = x[i < n ? i : 0] + k;\n"
         "for (int r = 0; r < " +
         std::to_string(rounds) +
         "; ++r) {\n#pragma unroll\nfor (int s = 0; s < 8; ++s)\n#pragma unroll\nfor (int k = 0; k "
         "< 8; ++k) a[k] = fmaf(a[k], 0.999f, 0.001f); }\nfloat sum = 0; for (int k = 0; k < 8; "
         "++k) sum += a[k]; if (i < n) y[i] = 2.0f * x[i] + (sum == 1.2345e30f ? 1.0f : 0.0f);";
}

TEST_F(TimingGpuTest, SaysWhatDeviceThisIs) {
  const DeviceInfo& info = runner().info();
  std::printf("device %s, %s, %lld SMs, %.1f GiB, L2 %.1f MiB, shared %lld, %s, driver %s\n",
              info.name.c_str(), info.target.c_str(), static_cast<long long>(info.sm_count),
              info.memory_bytes / 1073741824.0, info.l2_bytes / 1048576.0,
              static_cast<long long>(info.max_shared_bytes), info.uuid.c_str(),
              info.driver.c_str());
  std::printf("clock %s %s\n", ToText(info.clock).c_str(), info.clock_note.c_str());
  EXPECT_THAT(info.target, testing::StartsWith("sm_"));
  EXPECT_THAT(info.uuid, testing::StartsWith("GPU-"));
  EXPECT_GT(info.sm_count, 0);
  EXPECT_GE(info.max_shared_bytes, 48 * 1024);
  EXPECT_EQ(info.clock, Clock::kCupti) << info.clock_note;
  EXPECT_TRUE(runner().Canary().ok()) << runner().Canary();
}

// The sampler itself compares the two clocks above 100 us, and leaves CUPTI if they differ by 5 %.
TEST_F(TimingGpuTest, KnownLengthIsMeasured) {
  ASSERT_TRUE(PrepareDoubling(1000).ok());
  for (int64_t ns : {20'000, 200'000, 2'000'000}) {
    RunReport report = Run(Doubling(SpinBody(ns)));
    ASSERT_EQ(report.outcome, Outcome::kOk) << report.message;
    const double median = Median(report.samples_ns);
    std::printf("spin %7.1f us: median %8.2f us by %s, %zu samples\n", ns / 1e3, median / 1e3,
                ToText(report.clock).c_str(), report.samples_ns.size());
    EXPECT_GE(median, ns - 1'000);  // the global timer steps by up to a microsecond
    EXPECT_LE(median, ns * 1.01 + 5'000);
    EXPECT_EQ(report.clock, Clock::kCupti) << runner().info().clock_note;
  }
}

TEST_F(TimingGpuTest, TwiceTheSameWithinOnePercent) {
  ASSERT_TRUE(PrepareDoubling(1 << 20).ok());
  RunRequest request = Doubling(MultiplyAddBody(800));
  const double first = Median(Run(request).samples_ns);
  RunReport report = Run(request);
  const double second = Median(report.samples_ns);
  std::printf(
      "multiply-add: %.2f and %.2f us; SM %lld MHz, memory %lld MHz, %.1f W, %lld C, "
      "reasons %llx\n",
      first / 1e3, second / 1e3, static_cast<long long>(report.telemetry.sm_clock_mhz),
      static_cast<long long>(report.telemetry.memory_clock_mhz), report.telemetry.power_mw / 1e3,
      static_cast<long long>(report.telemetry.temperature_c),
      static_cast<unsigned long long>(report.telemetry.throttle_reasons));
  ASSERT_GT(first, 0);
  EXPECT_NEAR(second / first, 1.0, 0.01);
}

TEST_F(TimingGpuTest, ColdIsColderThanWarm) {
  ASSERT_TRUE(PrepareDoubling(2 << 20).ok());  // 8 MiB in, 8 out: fits every second-level cache
  RunRequest request = Doubling(kGood);
  const double cold = Median(Run(request).samples_ns);
  request.policy.cache_mode = CacheMode::kWarm;
  const double warm = Median(Run(request).samples_ns);
  std::printf("8 MiB in, 8 MiB out: cold %.2f us, warm %.2f us\n", cold / 1e3, warm / 1e3);
  EXPECT_GT(cold, 1.15 * warm);
}

TEST_F(TimingGpuTest, HopelessVariantsEndEarly) {
  ASSERT_TRUE(PrepareDoubling(1000).ok());
  RunRequest request = Doubling(SpinBody(100'000));
  request.policy.rival_latency_ns = 20'000;  // 5 times as fast
  RunReport report = Run(request);
  EXPECT_EQ(report.outcome, Outcome::kOk) << report.message;
  EXPECT_TRUE(report.stopped_early);
  EXPECT_EQ(report.samples_ns.size(), 3u);
  request.policy.rival_latency_ns = 2'000;  // 50 times
  report = Run(request);
  EXPECT_TRUE(report.stopped_early);
  EXPECT_EQ(report.samples_ns.size(), 1u);
}

TEST_F(TimingGpuTest, SlowKernelsStayWithinTheBudget) {
  ASSERT_TRUE(PrepareDoubling(1000).ok());
  RunReport report = Run(Doubling(SpinBody(100'000'000)));
  EXPECT_EQ(report.outcome, Outcome::kOk) << report.message;
  EXPECT_GE(report.samples_ns.size(), 3u);
  EXPECT_LE(report.samples_ns.size(), 5u);
}

TEST_F(TimingGpuTest, ReportsWhatAVariantCosts) {
  ASSERT_TRUE(PrepareDoubling(16 << 20).ok());  // 67 MB in, 67 MB out
  RunRequest request = Doubling(kGood);
  (void)Run(request);
  constexpr int kVariants = 20;
  size_t samples = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kVariants; ++i) {
    RunReport report = Run(request);
    ASSERT_EQ(report.outcome, Outcome::kOk) << report.message;
    samples += report.samples_ns.size();
  }
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - begin;
  std::printf("67 MB in, 67 MB out: %.2f ms a variant, %.1f samples each\n",
              elapsed.count() / kVariants, static_cast<double>(samples) / kVariants);
  EXPECT_LT(elapsed.count() / kVariants, 50);
}

TEST_F(TimingGpuTest, MeasuresItsCeilings) {
  const auto begin = std::chrono::steady_clock::now();
  absl::StatusOr<std::vector<Ceiling>> ceilings = runner().MeasureCeilings();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(ceilings.ok()) << ceilings.status();
  std::vector<std::string> names;
  for (const Ceiling& ceiling : *ceilings) {
    std::printf("ceiling %-12s %.4g T/s\n", ceiling.name.c_str(), ceiling.value / 1e12);
    names.push_back(ceiling.name);
    EXPECT_EQ(ceiling.source, CeilingSource::kMeasured);
    EXPECT_GT(ceiling.value, 1e10);
    EXPECT_LT(ceiling.value, 1e16);
  }
  std::printf("ceilings took %.2f s\n", elapsed.count());
  EXPECT_THAT(names, testing::IsSupersetOf({"dram_copy", "dram_read", "f32", "f64", "f16"}));
  EXPECT_LT(elapsed.count(), 4);
  EXPECT_TRUE(runner().Canary().ok());
}

}  // namespace
}  // namespace tune::cuda
