// SPDX-License-Identifier: Apache-2.0
#include "tuner/roofline/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tuner/roofline/roofline.h"

namespace tune {
namespace {

using testing::HasSubstr;

constexpr double kMiB = 1 << 20;

// 1 GB/ms of copy, 10 GFLOP/ms of f32: a ridge at 10 FLOP/byte.
RooflineBasis Basis(double bytes, double flops) {
  return {.declared = {.flops = flops, .bytes = bytes, .peak = "f32"},
          .ceilings = {{"dram_copy", 1e12, CeilingSource::kMeasured},
                       {"f32", 1e13, CeilingSource::kMeasured}}};
}

Trial Took(double ns) {
  Trial trial;
  trial.measurement.latency_ns_median = ns;
  return trial;
}

TEST(Diagnosis, TheLongestFloorBinds) {
  const Diagnosis memory = Diagnose(Basis(1e9, 1e9), std::nullopt, Took(1e6 / 0.9));
  EXPECT_EQ(memory.uses[0].resource, RooflineResource::kDram);
  EXPECT_DOUBLE_EQ(memory.floor_ns, 1e6);
  EXPECT_DOUBLE_EQ(memory.efficiency, 0.9);
  EXPECT_DOUBLE_EQ(memory.uses[0].intensity, 1);
  EXPECT_EQ(memory.verdict, RooflineVerdict::kWellUsed);
  EXPECT_THAT(memory.sentence, HasSubstr("memory-bound: 90.0 % of what main memory can do "
                                         "(dram_copy, 1 TB/s); at most 11.1 % faster"));

  const Diagnosis compute = Diagnose(Basis(1e9, 1e11), std::nullopt, Took(1e7 / 0.7));
  EXPECT_EQ(compute.uses[0].resource, RooflineResource::kCompute);
  EXPECT_EQ(compute.verdict, RooflineVerdict::kComputeBound);
  EXPECT_THAT(compute.sentence, HasSubstr("Compute-bound: 70.0 % of what f32 arithmetic"));
  EXPECT_EQ(Diagnose(Basis(1e9, 1e9), std::nullopt, Took(1e6 / 0.7)).verdict,
            RooflineVerdict::kMemoryBound);
}

TEST(Diagnosis, FarFromEveryLimitItIsWaiting) {
  const Diagnosis waiting = Diagnose(Basis(1e9, 1e9), std::nullopt, Took(1e6 / 0.25));
  EXPECT_EQ(waiting.verdict, RooflineVerdict::kLatencyLimited);
  EXPECT_THAT(waiting.sentence, HasSubstr("at most 4 times faster"));
}

TEST(Diagnosis, LargeFactorsAreWrittenOut) {
  EXPECT_THAT(Diagnose(Basis(1e9, 1e9), std::nullopt, Took(2.93e9)).sentence,
              HasSubstr("at most 2900 times faster"));
  EXPECT_THAT(Diagnose(Basis(1e9, 1e9), std::nullopt, Took(3.14e6)).sentence,
              HasSubstr("at most 3.1 times faster"));
}

// The search, the report, the profile and the fusion report ask the same function.
TEST(Diagnosis, DeclaredBytesHaveTheRoofOfTheirMix) {
  RooflineBasis basis = Basis(1e9, 0);
  basis.ceilings = {{"dram_copy", 4.2e12, CeilingSource::kMeasured},
                    {"dram_read", 4.6e12, CeilingSource::kMeasured},
                    {"dram_write", 4.0e12, CeilingSource::kMeasured}};
  for (const double written : {0.0, 1e8, 5e8, 8e8, 1e9}) {
    basis.written_bytes = written;
    const Diagnosis declared = Diagnose(basis, std::nullopt, Took(1e6));
    EXPECT_DOUBLE_EQ(declared.floor_ns,
                     RoofFor(basis.declared, basis.ceilings, 0, written).floor_ns);
    const CountedWork counted{.dram_read_bytes = 1e9 - written, .dram_write_bytes = written};
    EXPECT_DOUBLE_EQ(Diagnose(basis, counted, Took(1e6)).floor_ns, declared.floor_ns);
  }
  // 4.5 TB/s of reads: past the copies' roof, within the reads' own.
  basis.written_bytes = 0;
  basis.cache_bytes = 1;
  EXPECT_EQ(Diagnose(basis, std::nullopt, Took(1e9 / 4.5e12 * 1e9)).verdict,
            RooflineVerdict::kWellUsed);
}

TEST(Diagnosis, ACeilingsSpreadIsWithinWhatIsBelieved) {
  RooflineBasis basis = Basis(1e9, 0);
  basis.cache_bytes = 1;
  EXPECT_EQ(Diagnose(basis, std::nullopt, Took(1e6 / 1.5)).verdict, RooflineVerdict::kInvalidRoof);
  basis.ceilings[0].high = 1.6e12;  // measured while others used the host
  EXPECT_EQ(Diagnose(basis, std::nullopt, Took(1e6 / 1.5)).verdict, RooflineVerdict::kWellUsed);
}

TEST(Diagnosis, AboveTheRoofIsNotBelieved) {
  EXPECT_EQ(Diagnose(Basis(1e9, 0), std::nullopt, Took(1e6 / 1.02)).verdict,
            RooflineVerdict::kWellUsed);
  const Diagnosis invalid = Diagnose(Basis(1e9, 0), std::nullopt, Took(1e6 / 1.04));
  EXPECT_EQ(invalid.verdict, RooflineVerdict::kInvalidRoof);
  EXPECT_THAT(invalid.sentence, HasSubstr("stale ceiling"));
}

TEST(Diagnosis, OutputMayLeaveTheCacheAfterTheKernel) {
  RooflineBasis basis = Basis(64 * kMiB, 0);
  basis.written_bytes = 32 * kMiB;
  basis.cache_bytes = 16 * kMiB;
  const double floor_ns = 64 * kMiB / 1e3;
  const Diagnosis debt = Diagnose(basis, std::nullopt, Took(floor_ns / 1.2));
  EXPECT_EQ(debt.verdict, RooflineVerdict::kWellUsed);
  EXPECT_NEAR(debt.efficiency, 1.2, 1e-9);
  ASSERT_EQ(debt.notes.size(), 1u);
  EXPECT_THAT(debt.notes[0], HasSubstr("write-back debt: up to 16 of the 64 MiB"));
  // Three quarters of the bytes must move while it runs.
  EXPECT_EQ(Diagnose(basis, std::nullopt, Took(floor_ns * 0.74)).verdict,
            RooflineVerdict::kWellUsed);
  EXPECT_EQ(Diagnose(basis, std::nullopt, Took(floor_ns * 0.72)).verdict,
            RooflineVerdict::kInvalidRoof);
  EXPECT_TRUE(Diagnose(basis, std::nullopt, Took(floor_ns * 2)).notes.empty());
  // Counters saw what was really written by then.
  const CountedWork counted{.dram_read_bytes = 32 * kMiB, .dram_write_bytes = 32 * kMiB};
  EXPECT_EQ(Diagnose(basis, counted, Took(floor_ns / 1.2)).verdict, RooflineVerdict::kInvalidRoof);
  // A report does not believe a trial that the measurement itself refused.
  Trial refused = Took(floor_ns);
  refused.outcome = Outcome::kAboveRoof;
  EXPECT_EQ(Diagnose(basis, std::nullopt, refused).verdict, RooflineVerdict::kInvalidRoof);
}

TEST(Diagnosis, CountedBytesReplaceDeclaredOnesAndShowWhatIsReadTwice) {
  RooflineBasis basis = Basis(1e9, 1e9);
  basis.ceilings.push_back({"dram_read", 2e12, CeilingSource::kMeasured});
  basis.ceilings.push_back({"l2", 1e12, CeilingSource::kMeasured});
  const CountedWork counted{.dram_read_bytes = 2.4e9,
                            .dram_write_bytes = 0.1e9,
                            .l2_bytes = 1.8e9,
                            .flops = {{"f32", 2e9}}};
  const Diagnosis diagnosis = Diagnose(basis, counted, Took(2e6));
  EXPECT_DOUBLE_EQ(diagnosis.reread_factor, 2.5);
  ASSERT_EQ(diagnosis.uses.size(), 3u);
  EXPECT_EQ(diagnosis.uses[0].resource, RooflineResource::kL2);
  EXPECT_DOUBLE_EQ(diagnosis.efficiency, 0.9);
  EXPECT_EQ(diagnosis.uses[1].ceiling, "dram, 4 % written");
  EXPECT_TRUE(diagnosis.uses[1].counted);
  EXPECT_DOUBLE_EQ(diagnosis.uses[1].intensity, 2e9 / 2.5e9);
  EXPECT_THAT(diagnosis.notes, testing::Contains(HasSubstr("2.50 times the declared bytes")));
}

TEST(Diagnosis, TheRoofFitsTheMixOfReadsAndWrites) {
  RooflineBasis basis = Basis(1e9, 0);
  basis.ceilings = {{"dram_copy", 1e12, CeilingSource::kMeasured},
                    {"dram_read", 1.2e12, CeilingSource::kMeasured},
                    {"dram_write", 0.9e12, CeilingSource::kMeasured},
                    {"dram_triad", 1.1e12, CeilingSource::kMeasured}};
  const auto roof = [&](double read, double write) {
    const CountedWork counted{.dram_read_bytes = read, .dram_write_bytes = write};
    return Diagnose(basis, counted, Took(1e7)).uses.at(0).ceiling;
  };
  EXPECT_EQ(roof(1e9, 0), "dram_read");
  EXPECT_EQ(roof(0, 1e9), "dram_write");
  EXPECT_EQ(roof(5e8, 5e8), "dram_copy");
  EXPECT_EQ(roof(2e9, 1e9), "dram_triad");
  EXPECT_EQ(roof(2e8, 8e8), "dram, 80 % written");
}

TEST(Diagnosis, AnEmptyKernelsTimeIsAFloorToo) {
  RooflineBasis basis = Basis(1e5, 0);
  basis.ceilings.push_back({"launch", 2000, CeilingSource::kMeasured});
  const Diagnosis tiny = Diagnose(basis, std::nullopt, Took(2500));
  EXPECT_EQ(tiny.uses[0].resource, RooflineResource::kLaunch);
  EXPECT_EQ(tiny.verdict, RooflineVerdict::kLatencyLimited);
  EXPECT_THAT(tiny.sentence, HasSubstr("an empty kernel takes 2 us of its 2.5 us"));
}

TEST(Diagnosis, WarmDataNeedNotComeFromMemory) {
  RooflineBasis basis = Basis(1e6, 1e9);
  basis.cache_bytes = 50 * kMiB;
  Trial trial = Took(1e3);
  trial.measurement.cache_mode = CacheMode::kWarm;
  EXPECT_EQ(Diagnose(basis, std::nullopt, trial).uses.at(0).resource, RooflineResource::kCompute);
  basis.declared.bytes = 1e9;  // does not fit
  EXPECT_EQ(Diagnose(basis, std::nullopt, trial).uses.at(0).resource, RooflineResource::kDram);
}

TEST(Diagnosis, WithoutCeilingsItSaysSo) {
  RooflineBasis basis = Basis(1e9, 1e9);
  basis.ceilings.clear();
  const Diagnosis unknown = Diagnose(basis, std::nullopt, Took(1e6));
  EXPECT_EQ(unknown.verdict, RooflineVerdict::kUnknown);
  EXPECT_EQ(unknown.efficiency, 0);
  EXPECT_THAT(unknown.sentence, HasSubstr("No measured ceiling"));
}

}  // namespace
}  // namespace tune
