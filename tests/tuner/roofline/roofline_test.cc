// SPDX-License-Identifier: Apache-2.0
#include "tuner/roofline/roofline.h"

#include <gtest/gtest.h>

namespace tune {
namespace {

const std::vector<Ceiling> kCeilings = {{"dram_copy", 4e12, CeilingSource::kMeasured},
                                        {"f32", 60e12, CeilingSource::kMeasured},
                                        {"tensor_bf16", 800e12, CeilingSource::kNominal}};

TEST(RoofFor, TakesTheBindingCeiling) {
  // 4 MB at 4 TB/s are 1 us; 6e7 FLOPs at 60 TFLOP/s are 1 us as well.
  Roof roof = RoofFor({.flops = 3e7, .bytes = 4e6, .peak = "f32"}, kCeilings);
  EXPECT_DOUBLE_EQ(roof.floor_ns, 1000);
  EXPECT_EQ(roof.bound, Bound::kMemory);
  EXPECT_EQ(roof.ceiling, 4e12);
  EXPECT_EQ(roof.source, CeilingSource::kMeasured);
  roof = RoofFor({.flops = 12e7, .bytes = 4e6, .peak = "f32"}, kCeilings);
  EXPECT_DOUBLE_EQ(roof.floor_ns, 2000);
  EXPECT_EQ(roof.bound, Bound::kCompute);
  roof = RoofFor({.flops = 8e9, .bytes = 4e6, .peak = "tensor_bf16"}, kCeilings);
  EXPECT_DOUBLE_EQ(roof.floor_ns, 10000);
  EXPECT_EQ(roof.source, CeilingSource::kNominal);
}

TEST(RoofFor, KnowsNothingWithoutCeilings) {
  EXPECT_EQ(RoofFor({.flops = 1e9, .bytes = 0, .peak = "tensor_f8"}, kCeilings).bound,
            Bound::kUnknown);
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

TEST(RoofFor, AProblemsOutputMayStayInTheL2Cache) {
  ProblemPlan problem;
  problem.work = {.flops = 0, .bytes = 4e6, .peak = "f32"};
  problem.buffers = {{.name = "x", .dtype = DType::kF32, .count = 500'000, .role = Role::kInput},
                     {.name = "y", .dtype = DType::kF32, .count = 500'000, .role = Role::kOutput}};
  EXPECT_DOUBLE_EQ(RoofFor(problem, kCeilings, 1'000'000).believable_ns, 750);
  EXPECT_DOUBLE_EQ(RoofFor(problem, kCeilings, 1'000'000'000).believable_ns, 500);
  EXPECT_DOUBLE_EQ(RoofFor(problem, kCeilings, 0).believable_ns, 1000);
}

const std::vector<Ceiling> kDirections = {{"dram_read", 4.6e12, CeilingSource::kMeasured},
                                          {"dram_copy", 4.3e12, CeilingSource::kMeasured},
                                          {"dram_write", 4.0e12, CeilingSource::kMeasured},
                                          {"tensor_bf16", 900e12, CeilingSource::kMeasured}};

TEST(MemoryRoofFor, EachDirectionHasItsRoof) {
  EXPECT_DOUBLE_EQ(MemoryRoofFor(kDirections, 0).rate, 4.6e12);
  EXPECT_DOUBLE_EQ(MemoryRoofFor(kDirections, 0.5).rate, 4.3e12);
  EXPECT_DOUBLE_EQ(MemoryRoofFor(kDirections, 1).rate, 4.0e12);
  const double quarter = MemoryRoofFor(kDirections, 0.25).rate;
  EXPECT_DOUBLE_EQ(1 / quarter, (1 / 4.6e12 + 1 / 4.3e12) / 2);
  EXPECT_EQ(MemoryRoofFor({}, 0.5).rate, 0);
  EXPECT_EQ(MemoryRoofFor(kCeilings, 1).rate, 4e12) << "copies alone are known";
}

// A ceiling that was measured on a busy host has a wide spread; a sound trial beyond its value is
// within it.
TEST(ApplyRoofline, ATrialWithinTheCeilingsIntervalIsNotAboveTheRoof) {
  std::vector<Ceiling> ceilings = {{"dram_copy", 8e9, CeilingSource::kMeasured}};
  const WorkPlan work = {.flops = 0, .bytes = 8e6, .peak = "f32"};  // 1 ms at the ceiling
  Measurement measurement;
  measurement.cache_mode = CacheMode::kCold;
  measurement.latency_ns_median = 0.65e6;
  EXPECT_TRUE(ApplyRoofline(work, RoofFor(work, ceilings), measurement));
  ceilings[0].high = 13e9;
  EXPECT_FALSE(ApplyRoofline(work, RoofFor(work, ceilings), measurement));
  EXPECT_NEAR(measurement.peak_fraction, 1 / 0.65, 1e-9) << "the figure stays the ceiling's";
  measurement.latency_ns_median = 0.5e6;
  EXPECT_TRUE(ApplyRoofline(work, RoofFor(work, ceilings), measurement));
}

// A kernel that only writes is held against the writes' roof, not the copies'.
TEST(RoofFor, AWriteOnlyKernelHasTheWritesRoof) {
  const WorkPlan work = {.flops = 0, .bytes = 4e9, .peak = "f32"};
  EXPECT_DOUBLE_EQ(RoofFor(work, kDirections, 0, 4e9).floor_ns, 1e6);
  EXPECT_LT(RoofFor(work, kDirections, 0, 0).floor_ns, 0.9e6);
}

// Planted: a kernel that skips half of its reads, one whose data stay in the cache while its spec
// declares memory traffic, and one that skips half of its tensor products. All are caught, and no
// believed measurement is above 1.03 of its roof.
TEST(ApplyRoofline, PlantedViolationsAreCaught) {
  const WorkPlan reads = {.flops = 0, .bytes = 4.6e9, .peak = "f32"};
  const Roof roof = RoofFor(reads, kDirections, 0, 0);
  EXPECT_NEAR(roof.floor_ns, 1e6, 1e-3);
  for (const double ns : {0.5e6, 0.1e6, 0.969e6}) {
    Measurement measurement = {.latency_ns_median = ns};
    EXPECT_TRUE(ApplyRoofline(reads, roof, measurement)) << ns;
  }
  const WorkPlan products = {.flops = 9e11, .bytes = 1e6, .peak = "tensor_bf16"};
  const Roof tensor = RoofFor(products, kDirections, 0, 5e5);
  EXPECT_EQ(tensor.bound, Bound::kCompute);
  Measurement half = {.latency_ns_median = 0.5e6};
  EXPECT_TRUE(ApplyRoofline(products, tensor, half));
  for (double ns = 0.8e6; ns < 1.2e6; ns += 1e3) {
    Measurement measurement = {.latency_ns_median = ns};
    const bool doubted = ApplyRoofline(reads, roof, measurement);
    if (measurement.peak_fraction > 1.0 / 0.97) EXPECT_TRUE(doubted) << ns;
  }
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
  nominal.source = CeilingSource::kNominal;
  EXPECT_FALSE(ApplyRoofline(work, nominal, measurement));
}

}  // namespace
}  // namespace tune
