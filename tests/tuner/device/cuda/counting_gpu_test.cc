// SPDX-License-Identifier: Apache-2.0
// Counters on a GPU. A program of its own: a process that counts must not use CUPTI's activity
// records.
#include <cstdio>

#include "tests/tuner/device/cuda/gpu_fixture.h"
#include "tuner/counters/calibration.h"

namespace tune::cuda {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kCount = 64 << 20;  // elements: 256 MiB in, 256 MiB out

class CountingGpuTest : public GpuTest {
 protected:
  CountReport Count(const RunRequest& run, MetricSet set, CacheMode mode = CacheMode::kCold) {
    CountRequest request;
    request.program = run.program;
    request.set = set;
    request.cache_mode = mode;
    absl::StatusOr<CountReport> report = runner().Count(request);
    EXPECT_TRUE(report.ok()) << report.status();
    if (!report.ok()) return {};
    for (const CounterReading& counter : report->counters) {
      std::printf("  %-64s %.6g (%.6g .. %.6g)\n", counter.name.c_str(), counter.value, counter.low,
                  counter.high);
    }
    for (const std::string& note : report->left_out) std::printf("  left out: %s\n", note.c_str());
    return *std::move(report);
  }
};

#define SKIP_WITHOUT_COUNTERS(report) \
  if (!(report).unavailable.empty()) GTEST_SKIP() << "timing only: " << (report).unavailable

TEST_F(CountingGpuTest, BytesAndFlopsOfAKnownKernel) {
  ASSERT_TRUE(PrepareDoubling(kCount).ok());
  const CountReport report = Count(Doubling(kGood), MetricSet::kDefault);
  SKIP_WITHOUT_COUNTERS(report);
  ASSERT_EQ(report.outcome, Outcome::kOk) << report.message;
  std::printf("chip %s, %d passes\n", report.chip.c_str(), report.pass_count);
  EXPECT_EQ(report.pass_count, 2);
  EXPECT_NEAR(report.quantities.at("dram_read"), 4.0 * kCount, 0.02 * 4 * kCount);
  // Up to a cache full of the output leaves later.
  EXPECT_NEAR(report.quantities.at("dram_write"), 4.0 * kCount, 0.3 * 4 * kCount);
  const double f32 = report.quantities.at("f32");
  EXPECT_EQ(f32, static_cast<double>(kCount));
  EXPECT_EQ(report.quantities.at("f64"), 0);
  EXPECT_EQ(report.quantities.at("tensor_instructions"), 0);
}

TEST_F(CountingGpuTest, RereadingShows) {
  ASSERT_TRUE(PrepareDoubling(kCount).ok());
  const CountReport once = Count(Doubling(kGood), MetricSet::kDefault);
  SKIP_WITHOUT_COUNTERS(once);
  // Every element is read by a second block, half the array away.
  const CountReport twice =
      Count(Doubling("long long j = (i + n / 2) % n; if (i < n) y[i] = 2.0f * x[i] + 0.0f * x[j];"),
            MetricSet::kDefault);
  ASSERT_EQ(twice.outcome, Outcome::kOk) << twice.message;
  EXPECT_NEAR(twice.quantities.at("dram_read") / once.quantities.at("dram_read"), 2.0, 0.1);
}

TEST_F(CountingGpuTest, AllSetsCollect) {
  ASSERT_TRUE(PrepareDoubling(1 << 22).ok());
  for (const MetricSet set : {MetricSet::kFlops, MetricSet::kTensor, MetricSet::kAll}) {
    const CountReport report = Count(Doubling(kGood), set);
    SKIP_WITHOUT_COUNTERS(report);
    EXPECT_EQ(report.outcome, Outcome::kOk) << report.message;
    EXPECT_TRUE(report.left_out.empty());
    std::printf("set %s: %d passes\n", ToText(set).c_str(), report.pass_count);
    if (set != MetricSet::kAll) continue;
    EXPECT_GT(report.quantities.at("occupancy"), 0.05);
    EXPECT_LE(report.quantities.at("occupancy"), 1.0);
    EXPECT_GT(report.quantities.at("stall_long_scoreboard"), 0);
  }
}

TEST_F(CountingGpuTest, AWarmCacheIsNotRead) {
  ASSERT_TRUE(PrepareDoubling(1 << 20).ok());  // 4 MiB each: fits
  const CountReport cold = Count(Doubling(kGood), MetricSet::kDefault, CacheMode::kCold);
  SKIP_WITHOUT_COUNTERS(cold);
  const CountReport warm = Count(Doubling(kGood), MetricSet::kDefault, CacheMode::kWarm);
  EXPECT_GT(cold.quantities.at("dram_read"), 0.98 * (4 << 20));
  EXPECT_LT(warm.quantities.at("dram_read"), 0.1 * (4 << 20));
}

TEST_F(CountingGpuTest, AWrongResultIsNotCounted) {
  ASSERT_TRUE(PrepareDoubling(1 << 20).ok());
  const CountReport report = Count(Doubling("if (i < n) y[i] = 3.0f * x[i];"), MetricSet::kFlops);
  SKIP_WITHOUT_COUNTERS(report);
  EXPECT_EQ(report.outcome, Outcome::kWrongResult);
}

TEST_F(CountingGpuTest, CalibrationIsExact) {
  absl::StatusOr<CalibrationReport> report = runner().Calibrate();
  ASSERT_TRUE(report.ok()) << report.status();
  SKIP_WITHOUT_COUNTERS(*report);
  JudgeCalibration(report->entries, {});
  for (const CalibrationEntry& entry : report->entries) {
    std::printf("  %-20s %-60s expected %.10g counted %.10g multiplier %g %s %s\n",
                entry.name.c_str(), entry.counter.c_str(), entry.expected, entry.counted,
                entry.multiplier, entry.passed ? "ok" : "FAILED", entry.message.c_str());
    EXPECT_TRUE(entry.passed) << entry.name << ": " << entry.message;
  }
}

}  // namespace
}  // namespace tune::cuda
