// SPDX-License-Identifier: Apache-2.0
#include "tuner/roofline/roofline.h"

#include <gtest/gtest.h>

namespace tune {
namespace {

const std::vector<Ceiling> kCeilings = {
    {"dram_copy", 4e12, true}, {"f32", 60e12, true}, {"tensor_bf16", 800e12, false}};

TEST(RoofFor, TakesTheBindingCeiling) {
  // 4 MB at 4 TB/s are 1 us; 6e7 FLOPs at 60 TFLOP/s are 1 us as well.
  Roof roof = RoofFor({.flops = 3e7, .bytes = 4e6, .peak = "f32"}, kCeilings);
  EXPECT_DOUBLE_EQ(roof.floor_ns, 1000);
  EXPECT_EQ(roof.bound, "memory");
  EXPECT_EQ(roof.ceiling, 4e12);
  EXPECT_TRUE(roof.measured);
  roof = RoofFor({.flops = 12e7, .bytes = 4e6, .peak = "f32"}, kCeilings);
  EXPECT_DOUBLE_EQ(roof.floor_ns, 2000);
  EXPECT_EQ(roof.bound, "compute");
  roof = RoofFor({.flops = 8e9, .bytes = 4e6, .peak = "tensor_bf16"}, kCeilings);
  EXPECT_DOUBLE_EQ(roof.floor_ns, 10000);
  EXPECT_FALSE(roof.measured);
}

TEST(RoofFor, KnowsNothingWithoutCeilings) {
  EXPECT_EQ(RoofFor({.flops = 1e9, .bytes = 0, .peak = "tensor_f8"}, kCeilings).bound, "");
  const Roof roof = RoofFor({.flops = 1e9, .bytes = 1e6, .peak = "f32"}, {});
  Measurement measurement = {.latency_ns_median = 1};
  EXPECT_FALSE(ApplyRoofline({.flops = 1e9, .bytes = 1e6}, roof, measurement));
  EXPECT_EQ(measurement.peak_fraction, 0);
  EXPECT_EQ(measurement.bytes_per_second, 1e15);
}

TEST(RoofFor, OutputMayStayInTheCache) {
  const WorkPlan work = {.flops = 0, .bytes = 4e6, .peak = "f32"};
  const Roof roof = RoofFor(work, kCeilings, 1e6);
  EXPECT_DOUBLE_EQ(roof.floor_ns, 1000);
  EXPECT_DOUBLE_EQ(roof.believable_ns, 750);
  Measurement measurement = {.latency_ns_median = 900};
  EXPECT_FALSE(ApplyRoofline(work, roof, measurement));
  EXPECT_DOUBLE_EQ(measurement.peak_fraction, 1000.0 / 900);
  measurement.latency_ns_median = 700;
  EXPECT_TRUE(ApplyRoofline(work, roof, measurement));
}

TEST(ApplyRoofline, FillsRatesAndDoubtsTheImpossible) {
  const WorkPlan work = {.flops = 2e6, .bytes = 4e6, .peak = "f32"};
  const Roof roof = RoofFor(work, kCeilings);
  Measurement measurement = {.latency_ns_median = 1250};
  EXPECT_FALSE(ApplyRoofline(work, roof, measurement));
  EXPECT_DOUBLE_EQ(measurement.bytes_per_second, 3.2e12);
  EXPECT_DOUBLE_EQ(measurement.flops_per_second, 1.6e12);
  EXPECT_DOUBLE_EQ(measurement.peak_fraction, 0.8);
  measurement.latency_ns_median = 971;
  EXPECT_FALSE(ApplyRoofline(work, roof, measurement));
  measurement.latency_ns_median = 969;
  EXPECT_TRUE(ApplyRoofline(work, roof, measurement));
  measurement.cache_mode = CacheMode::kWarm;
  EXPECT_FALSE(ApplyRoofline(work, roof, measurement));
  measurement.cache_mode = CacheMode::kCold;
  Roof nominal = roof;
  nominal.measured = false;
  EXPECT_FALSE(ApplyRoofline(work, nominal, measurement));
}

}  // namespace
}  // namespace tune
