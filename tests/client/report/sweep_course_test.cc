// SPDX-License-Identifier: Apache-2.0
// The picture of all trials of a sweep, and its timeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "client/report/sweep_report_view.h"
#include "client/report/sweep_trace.h"

namespace tune::client {
namespace {

using testing::HasSubstr;

v1::SweepCourse Course() {
  v1::SweepCourse course;
  course.set_trials(6);
  const double latencies[] = {9000, 5000, 0, 4000, 4000, 70000};
  for (int i = 0; i < 6; ++i) {
    v1::CoursePoint& point = *course.add_points();
    point.set_trial_id(i + 1);
    point.set_trial_number(static_cast<uint64_t>(i + 1));
    point.set_latency_ns(latencies[i]);
    point.set_latency_ns_low(latencies[i] * 0.9);
    point.set_latency_ns_high(latencies[i] * 1.1);
    point.set_outcome(i == 2 ? v1::OUTCOME_TIMED_OUT : v1::OUTCOME_OK);
    point.set_improves(i == 0 || i == 1 || i == 3);
  }
  v1::SweepResult& result = *course.mutable_sweep()->mutable_result();
  result.mutable_best()->set_id(4);
  result.mutable_best()->mutable_measurement()->set_latency_ns_low(3900);
  result.mutable_best()->mutable_measurement()->set_latency_ns_high(4100);
  result.add_ties()->set_id(5);
  return course;
}

const ChartPoints* Find(const SvgChart& chart, const std::string& name) {
  for (const ChartPoints& points : chart.points) {
    if (points.name == name) return &points;
  }
  return nullptr;
}

TEST(SweepCourseTest, FailuresTiesAndNoiseAreSeen) {
  const SvgChart chart = CourseChart(Course());
  const ChartPoints* failed = Find(chart, "not ok");
  ASSERT_NE(failed, nullptr);
  ASSERT_EQ(failed->points.size(), 1u);
  EXPECT_LT(failed->points[0].y, 4000e-9);  // below every trial that was timed
  EXPECT_GT(failed->points[0].y, *chart.y.min);
  EXPECT_THAT(failed->points[0].title, HasSubstr("timed_out"));
  const ChartPoints* ties = Find(chart, "cannot be told from the best");
  ASSERT_NE(ties, nullptr);
  EXPECT_EQ(ties->points[0].x, 5);
  ASSERT_NE(Find(chart, "best"), nullptr);
  EXPECT_DOUBLE_EQ(chart.bands[0].points[0].low, 3900e-9);
  EXPECT_DOUBLE_EQ(chart.bands[0].points[1].high, 4100e-9);
  ASSERT_EQ(chart.lines.size(), 1u);
  EXPECT_DOUBLE_EQ(chart.lines[0].points.back().y, 4000e-9);  // to the last trial
  EXPECT_EQ(chart.lines[0].points.back().x, 6);
}

TEST(SweepCourseTest, OutliersAreLeftOutOnDemandAndThinningIsSaid) {
  v1::SweepCourse course = Course();
  const SvgChart fastest = CourseChart(course, {.scale = Scale::kLinear, .fastest_share = 0.6});
  EXPECT_LT(*fastest.y.max, 6000e-9);
  EXPECT_THAT(fastest.subtitle, HasSubstr("the fastest 60.0 %"));
  EXPECT_EQ(CourseChart(course).subtitle, "6 trials");
  course.set_trials(50'000);
  EXPECT_THAT(CourseChart(course).subtitle, HasSubstr("50000 trials; drawn are 6"));
}

TEST(SweepCourseTest, WithoutATimedTrialThereIsAPicture) {
  v1::SweepCourse course;
  EXPECT_THAT(ToSvg(CourseChart(course)), HasSubstr("nothing to show"));
  course.set_trials(1);
  v1::CoursePoint& point = *course.add_points();
  point.set_trial_number(1);
  point.set_outcome(v1::OUTCOME_COMPILE_FAILED);
  EXPECT_THAT(ToSvg(CourseChart(course)), HasSubstr("compile_failed"));
}

TEST(SweepTraceTest, TheDeviceAndCompilesThatOverlapHaveLanes) {
  v1::Job job;
  job.set_id(7);
  job.set_subject("\xFF<b>");
  job.set_created_unix_ms(1000);
  job.set_started_unix_ms(3000);
  std::vector<v1::Trial> trials;
  for (int i = 0; i < 3; ++i) {
    v1::Trial trial;
    trial.set_id(i + 1);
    trial.set_finished_unix_ms(5000 + 100 * i);
    trial.set_evaluate_seconds(0.05);
    trial.set_compile_seconds(1);
    trial.set_compile_cached(i == 2);
    trials.push_back(trial);
  }
  for (int i = 0; i < 2; ++i) {  // by turns
    v1::Trial again = trials.back();
    again.set_purpose(v1::TRIAL_PURPOSE_CONFIRM);
    again.set_evaluate_seconds(0.3);
    again.set_finished_unix_ms(6000 + i);
    trials.push_back(again);
  }
  const auto trace = nlohmann::json::parse(TraceJson(job, trials));
  std::map<int, int> slices;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") ++slices[event["tid"]];
    if (event["ph"] == "X" && event["tid"] == 2 && event["args"]["trial"] == 1) {
      EXPECT_DOUBLE_EQ(event["ts"], 4950e3);
      EXPECT_DOUBLE_EQ(event["dur"], 50e3);
    }
    if (event["name"] == "measures the best again, in rounds") {
      EXPECT_DOUBLE_EQ(event["ts"], 5401e3);
      EXPECT_DOUBLE_EQ(event["dur"], 600e3);
    }
  }
  EXPECT_EQ(slices, (std::map<int, int>{{1, 1}, {2, 4}, {3, 1}, {4, 1}}));
}

}  // namespace
}  // namespace tune::client
