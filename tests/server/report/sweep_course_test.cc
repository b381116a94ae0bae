// SPDX-License-Identifier: Apache-2.0
#include "server/report/sweep_course.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace tune::server {
namespace {

// A search of so many trials: slower and slower but for each 1000th, each seventh failed.
std::vector<db::TrialPoint> Search(int64_t count) {
  std::vector<db::TrialPoint> trials;
  for (int64_t i = 0; i < count; ++i) {
    db::TrialPoint trial{.id = 100 + i, .finished_unix_ms = 5000 + 10 * i};
    trial.outcome = i % 7 == 3 ? Outcome::kCompileFailed : Outcome::kOk;
    trial.latency_ns_median = i % 1000 == 0 ? 1e6 - static_cast<double>(i) : 2e6 + i % 13;
    trials.push_back(trial);
  }
  return trials;
}

TEST(SweepCourseTest, FewTrialsAreAllThere) {
  std::vector<db::TrialPoint> trials = Search(20);
  trials.front().evaluate_seconds = 2;
  const v1::SweepCourse course = MakeSweepCourse(trials, 20);
  ASSERT_EQ(course.points_size(), 20);
  EXPECT_EQ(course.trials(), 20u);
  EXPECT_EQ(course.points(0).trial_number(), 1u);
  EXPECT_EQ(course.points(0).seconds(), 2);
  EXPECT_TRUE(course.points(0).improves());
  EXPECT_EQ(course.points(3).outcome(), v1::OUTCOME_COMPILE_FAILED);
  EXPECT_EQ(course.points(3).latency_ns(), 0);
  EXPECT_EQ(course.points(19).trial_id(), 119);
  EXPECT_EQ(MakeSweepCourse({}, 20).points_size(), 0);
}

TEST(SweepCourseTest, OfManyTrialsImprovementsConfirmationsAndFailuresStay) {
  std::vector<db::TrialPoint> trials = Search(50'000);
  for (int64_t i = 0; i < 5; ++i) {
    trials.push_back({.id = 90'000 + i,
                      .purpose = TrialPurpose::kConfirm,
                      .latency_ns_median = 1e3,
                      .finished_unix_ms = 900'000});
  }
  const v1::SweepCourse course = MakeSweepCourse(trials, 2000);
  EXPECT_LE(course.points_size(), 2100);
  EXPECT_GT(course.points_size(), 1000);
  EXPECT_EQ(course.trials(), 50'005u);
  std::set<uint64_t> improvements;
  int failures = 0, confirmations = 0;
  uint64_t last = 0;
  for (const v1::CoursePoint& point : course.points()) {
    EXPECT_GT(point.trial_number(), last);
    last = point.trial_number();
    if (point.improves()) improvements.insert(point.trial_number());
    failures += point.outcome() != v1::OUTCOME_OK;
    confirmations += point.purpose() == v1::TRIAL_PURPOSE_CONFIRM;
  }
  EXPECT_GE(improvements.size(), 40u);  // those of each 1000th that did not fail
  EXPECT_TRUE(improvements.count(1001));
  EXPECT_GT(failures, 500);
  EXPECT_EQ(confirmations, 5);
}

}  // namespace
}  // namespace tune::server
