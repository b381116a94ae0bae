// SPDX-License-Identifier: Apache-2.0
// A job: work for a device. The further data of each kind of job is in tables of its own, which
// name their job.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "base/fields.h"

namespace tune::db {

// Values are stored and sent: do not renumber.
enum class JobKind {
  kSweep = 1,
  kGate = 2,
  kProfile = 3,
  kBench = 4,
  kComparison = 5,
  kCeilings = 6,
  kCalibration = 7,
};

enum class JobState { kQueued = 1, kRunning = 2, kDone = 3, kCancelled = 4, kFailed = 5 };

// Interactive jobs come before background ones, which yield to them between trials.
enum class JobPriority { kInteractive = 1, kBackground = 2 };

struct JobRow {
  int64_t id = 0;
  JobKind kind = JobKind::kSweep;
  JobState state = JobState::kQueued;
  JobPriority priority = JobPriority::kInteractive;
  std::string owner;      // the principal that asked
  std::string subject;    // for people: "softmax rows=8192 cols=4096 bf16"
  std::string device_id;  // "cuda:0"; before it starts, the first of those that it may run on
  std::string message;    // what it does or waits for, or why it ended so
  int64_t created_unix_ms = 0;
  int64_t started_unix_ms = 0;   // 0: it has not
  int64_t finished_unix_ms = 0;  // 0: it is not
  uint32_t deaths = 0;           // ends of the daemon while it ran
};
TUNE_FIELDS(JobRow, id, kind, state, priority, owner, subject, device_id, message, created_unix_ms,
            started_unix_ms, finished_unix_ms, deaths);

inline bool IsFinished(JobState state) {
  return state != JobState::kQueued && state != JobState::kRunning;
}

// Selects jobs that match every field that is set, newest first.
// The `before_id` of a list, newest first, that leaves out no row.
inline constexpr int64_t kNewest = std::numeric_limits<int64_t>::max();

struct JobFilter {
  JobKind kind = JobKind{};  // none: all
  bool unfinished = false;
  std::string owner;  // empty: all
  uint32_t limit = 50;
  int64_t before_id = kNewest;
};

}  // namespace tune::db
