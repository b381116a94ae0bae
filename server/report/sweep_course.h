// SPDX-License-Identifier: Apache-2.0
// The course of a sweep as the points of a picture. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "db/trial_store.h"
#include "tune/v1/report.pb.h"

namespace tune::server {

// The course of these trials, oldest first, with about `points_max` points: all trials if they are
// no more. Otherwise all improvements and confirmations, and of each stretch of the search the
// fastest, the slowest and the first failure. More improvements than `points_max` all stay.
v1::SweepCourse MakeSweepCourse(const std::vector<db::TrialPoint>& trials, size_t points_max);

}  // namespace tune::server
