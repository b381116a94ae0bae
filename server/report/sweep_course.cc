// SPDX-License-Identifier: Apache-2.0
#include "server/report/sweep_course.h"

#include <algorithm>
#include <set>

namespace tune::server {
namespace {

constexpr size_t kKeptPerStretch = 3;  // the fastest, the slowest, a failure

bool IsTimed(const db::TrialPoint& trial) {
  return trial.outcome == Outcome::kOk && trial.latency_ns_median > 0;
}

// Indexes of the trials that were the fastest of the search so far.
std::set<size_t> Improvements(const std::vector<db::TrialPoint>& trials) {
  std::set<size_t> improvements;
  double best = 0;
  for (size_t i = 0; i < trials.size(); ++i) {
    const db::TrialPoint& trial = trials[i];
    if (trial.purpose != TrialPurpose::kSearch || !IsTimed(trial)) continue;
    if (best > 0 && trial.latency_ns_median >= best) continue;
    best = trial.latency_ns_median;
    improvements.insert(i);
  }
  return improvements;
}

// Adds the indexes that stay of the stretch [begin, end).
void KeepOfStretch(const std::vector<db::TrialPoint>& trials, size_t begin, size_t end,
                   std::set<size_t>& kept) {
  size_t fastest = end, slowest = end, failure = end;
  for (size_t i = begin; i < end; ++i) {
    const double latency = trials[i].latency_ns_median;
    if (trials[i].purpose == TrialPurpose::kConfirm) {
      kept.insert(i);
    } else if (!IsTimed(trials[i])) {
      failure = std::min(failure, i);
    } else {
      if (fastest == end || latency < trials[fastest].latency_ns_median) fastest = i;
      if (slowest == end || latency > trials[slowest].latency_ns_median) slowest = i;
    }
  }
  for (const size_t i : {fastest, slowest, failure}) {
    if (i != end) kept.insert(i);
  }
}

}  // namespace

v1::SweepCourse MakeSweepCourse(const std::vector<db::TrialPoint>& trials, size_t points_max) {
  const std::set<size_t> improvements = Improvements(trials);
  std::set<size_t> kept = improvements;
  const size_t stretches = trials.size() <= points_max
                               ? trials.size()
                               : std::max<size_t>(points_max / kKeptPerStretch, 1);
  for (size_t i = 0; i < stretches; ++i) {
    KeepOfStretch(trials, trials.size() * i / stretches, trials.size() * (i + 1) / stretches, kept);
  }
  v1::SweepCourse course;
  course.set_trials(trials.size());
  if (trials.empty()) return course;
  const double started_ms =
      static_cast<double>(trials.front().finished_unix_ms) - trials.front().evaluate_seconds * 1e3;
  for (const size_t i : kept) {
    const db::TrialPoint& trial = trials[i];
    v1::CoursePoint& point = *course.add_points();
    point.set_trial_id(trial.id);
    point.set_trial_number(i + 1);
    point.set_seconds(
        std::max(0.0, (static_cast<double>(trial.finished_unix_ms) - started_ms) / 1e3));
    point.set_outcome(static_cast<v1::Outcome>(trial.outcome));
    point.set_purpose(static_cast<v1::TrialPurpose>(trial.purpose));
    point.set_improves(improvements.count(i) > 0);
    if (!IsTimed(trial)) continue;
    point.set_latency_ns(trial.latency_ns_median);
    point.set_latency_ns_low(trial.latency_ns_low);
    point.set_latency_ns_high(trial.latency_ns_high);
  }
  return course;
}

}  // namespace tune::server
