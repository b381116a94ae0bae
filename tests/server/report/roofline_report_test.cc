// SPDX-License-Identifier: Apache-2.0
#include "server/report/roofline_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "server/kernels/kernel_source.h"
#include "tests/server/test_server.h"

namespace tune::server {
namespace {

// A roofline of 20 trials, of which the first is the slowest and has no latency.
class RooflineReportTest : public testing::Test {
 protected:
  RooflineReportTest() {
    evidence_.view.row.target = "cpu";
    evidence_.view.row.problem.dims = {{"n", 4096}, {"mode", 0}};
    for (int64_t i = 0; i < 20; ++i) {
      Trial trial{.id = i + 1, .outcome = i == 0 ? Outcome::kCompileFailed : Outcome::kOk};
      trial.message = std::string(1000, 'x');
      if (i > 0) trial.measurement.latency_ns_median = 1000.0 - static_cast<double>(i);
      evidence_.trials.push_back(trial);
    }
  }
  v1::Roofline Make(const RooflineLimit& limit) const {
    const NamedKernel named = ParseKernelSource(ScaleKernel()).value();
    return MakeRoofline(evidence_, {.kernel = *named.kernel}, limit).value();
  }

  SweepEvidence evidence_;
};

TEST_F(RooflineReportTest, PointsBeyondTheLimitAreOmittedSlowestFirst) {
  const v1::Roofline few = Make({.points = 5});
  ASSERT_EQ(few.points_size(), 5);
  EXPECT_EQ(few.points_omitted(), 15u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(few.points(i).trial().id(), 16 + i);
  EXPECT_THAT(few.notes(), testing::Contains(testing::HasSubstr("the slowest 15 trials")));
  EXPECT_EQ(Make({}).points_size(), 20);
  EXPECT_EQ(Make({}).points_omitted(), 0u);
}

TEST_F(RooflineReportTest, BytesBeyondTheLimitAreOmittedToo) {
  const v1::Roofline roofline = Make({.bytes = 8000});
  EXPECT_GT(roofline.points_size(), 2);
  EXPECT_EQ(roofline.points_omitted(), 20u - static_cast<uint64_t>(roofline.points_size()));
  size_t bytes = 0;
  for (const v1::RooflinePoint& point : roofline.points()) bytes += point.ByteSizeLong();
  EXPECT_LE(bytes, 8000u);
}

TEST_F(RooflineReportTest, SweepsShareAReportEvenly) {
  v1::RooflineReport report;
  EXPECT_EQ(NextLimit(report, 1).points, 10'000u);
  EXPECT_EQ(NextLimit(report, 50).points, 1000u);
  EXPECT_EQ(NextLimit(report, 16).bytes, 1u << 20);
  for (int i = 0; i < 20'000; ++i) report.mutable_rooflines()->Add()->add_points();
  EXPECT_EQ(NextLimit(report, 6).points, 5000u);
  EXPECT_LT(NextLimit(report, 1).bytes, 16u << 20);
  report.set_version(std::string(17 << 20, 'x'));
  EXPECT_EQ(NextLimit(report, 3).bytes, 0u);
}

}  // namespace
}  // namespace tune::server
