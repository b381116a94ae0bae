// SPDX-License-Identifier: Apache-2.0
#include "server/report/sweep_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace tune::server {
namespace {

using testing::HasSubstr;

// Trials of configs on a diagonal: each has values of its own for both params.
SweepEvidence Diagonal(int64_t trials) {
  SweepEvidence evidence;
  for (int64_t i = 0; i < trials; ++i) {
    Trial trial{.id = i + 1, .outcome = Outcome::kOk};
    trial.config.entries = {{"ROWS", i}, {"COLUMNS", i}};
    trial.measurement.latency_ns_median = 100.0 + static_cast<double>(i);
    evidence.trials.push_back(trial);
  }
  return evidence;
}

TEST(SweepReportTest, AHeatmapOfTooManyCellsIsRefusedOrLeftOut) {
  const SweepEvidence evidence = Diagonal(300);
  const absl::Status refused =
      MakeSweepReport(evidence, {.row_param = "ROWS", .column_param = "COLUMNS"}, {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("300 times 300 cells"));
  for (const char* row : {"", "ROWS"}) {
    const v1::SweepReport report = MakeSweepReport(evidence, {.row_param = row}, {}).value();
    EXPECT_FALSE(report.has_heatmap());
    EXPECT_EQ(report.params_size(), 2);
  }
  EXPECT_TRUE(MakeSweepReport(Diagonal(30), {.row_param = "ROWS", .column_param = "COLUMNS"}, {})
                  .value()
                  .has_heatmap());
}

TEST(SweepReportTest, NothingIsComputedOnceNobodyWaits) {
  EXPECT_TRUE(absl::IsCancelled(MakeSweepReport(Diagonal(3), {}, [] { return true; }).status()));
}

}  // namespace
}  // namespace tune::server
