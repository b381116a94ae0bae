// SPDX-License-Identifier: Apache-2.0
// Calibration and what counts become.
#include "tuner/counters/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tune {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CalibrationEntry Exact(const std::string& name, const std::string& quantity, double expected,
                       double counted) {
  return {.name = name, .quantity = quantity, .expected = expected, .counted = counted};
}

TEST(JudgeCalibration, AnyPowerOfTwoIsAMultiplier) {
  std::vector<CalibrationEntry> entries = {Exact("f32", "f32", 4096, 4096),
                                           Exact("f16", "f16", 8192, 4096),
                                           Exact("i8", "tensor_i8", 4096, 8192)};
  JudgeCalibration(entries, {});
  EXPECT_TRUE(AllPassed(entries));
  EXPECT_EQ(MultipliersOf(entries), (Multipliers{{"f16", 2}, {"f32", 1}, {"tensor_i8", 0.5}}));
}

TEST(JudgeCalibration, OneOperationTooManyFails) {
  std::vector<CalibrationEntry> entries = {Exact("f32", "f32", 4096, 4097)};
  JudgeCalibration(entries, {});
  EXPECT_FALSE(AllPassed(entries));
  EXPECT_THAT(entries[0].message, HasSubstr("4097"));
  EXPECT_THAT(MultipliersOf(entries), IsEmpty());
}

TEST(JudgeCalibration, AnotherMultiplierThanTheChipsFails) {
  std::vector<CalibrationEntry> entries = {Exact("f16", "f16", 8192, 8192)};
  JudgeCalibration(entries, {{"f16", 2}});
  EXPECT_FALSE(entries[0].passed);
  EXPECT_THAT(entries[0].message, HasSubstr("multiplied by 2"));
}

TEST(JudgeCalibration, KernelsOfOneQuantityMustAgree) {
  std::vector<CalibrationEntry> entries = {Exact("bf16_mma", "tensor_bf16", 4096, 4096),
                                           Exact("bf16_wgmma", "tensor_bf16", 4096, 2048)};
  JudgeCalibration(entries, {});
  EXPECT_TRUE(entries[0].passed);
  EXPECT_FALSE(entries[1].passed);
}

TEST(JudgeCalibration, BytesPassWithinTheirTolerance) {
  CalibrationEntry read = Exact("dram_read", "dram_read", 1000, 1015);
  read.tolerance = 0.02;
  CalibrationEntry write = Exact("dram_write", "dram_write", 1000, 1030);
  write.tolerance = 0.02;
  CalibrationEntry unread = Exact("tensor_f8", "tensor_f8", 1000, 0);
  std::vector<CalibrationEntry> entries = {read, write, unread};
  JudgeCalibration(entries, {});
  EXPECT_TRUE(entries[0].passed);
  EXPECT_FALSE(entries[1].passed);
  EXPECT_THAT(entries[2].message, HasSubstr("nothing was counted"));
  EXPECT_THAT(MultipliersOf(entries), IsEmpty()) << "bytes need none";
}

CountReport Report() {
  CountReport report;
  report.chip = "GH100";
  report.pass_count = 2;
  report.reading_count = 3;
  report.counters = {{"dram__bytes_read.sum", 100, 99, 101}};
  report.quantities = {{"dram_read", 100}, {"dram_write", 50}, {"f32", 10}, {"f16", 4}};
  return report;
}

TEST(ApplyCounts, MultipliersTurnCountsIntoOperations) {
  Profile profile;
  ApplyCounts(Report(), {.multipliers = {{"f16", 2}}}, profile);
  EXPECT_TRUE(profile.counted);
  EXPECT_EQ(profile.quantities.at("f16"), 8);
  EXPECT_EQ(CountedFlops(profile), 18);
  EXPECT_EQ(LevelBytes(profile, "dram"), 150);
  EXPECT_LT(LevelBytes(profile, "l2"), 0);
  EXPECT_THAT(profile.notes, IsEmpty());
}

TEST(ApplyCounts, UncalibratedQuantitiesAreNoted) {
  Profile profile;
  ApplyCounts(Report(), {}, profile);
  EXPECT_EQ(profile.quantities.at("f16"), 4);
  EXPECT_THAT(profile.notes, Contains(HasSubstr("tunectl device calibrate")));
}

TEST(ApplyCounts, WithoutPrivilegeThereIsTheTimeAndAReason) {
  CountReport report;
  report.unavailable = "the driver reserves the counters";
  Profile profile;
  profile.measurement.latency_ns_median = 1000;
  ApplyCounts(report, {}, profile);
  EXPECT_FALSE(profile.counted);
  EXPECT_EQ(profile.outcome, Outcome::kOk);
  EXPECT_EQ(profile.message, "timing only: the driver reserves the counters");
  EXPECT_LT(CountedFlops(profile), 0);
}

TEST(ApplyCounts, OutputThatMayStayCachedIsWriteBackDebt) {
  Profile profile;
  ApplyCounts(Report(), {.written_bytes = 60, .l2_bytes = 40, .multipliers = {{"f16", 2}}},
              profile);
  EXPECT_EQ(profile.write_back_debt_bytes, 40);
  EXPECT_THAT(profile.notes, Contains(HasSubstr("40 bytes of output")));
}

}  // namespace
}  // namespace tune
