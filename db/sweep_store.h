// SPDX-License-Identifier: Apache-2.0
// The part of a store (db/store.h) for sweeps. Sweeps: what is tuned, how far it is, and its
// result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fields.h"
#include "db/job.h"
#include "tuner/problem.h"
#include "tuner/trial.h"

namespace tune::db {

struct SweepRow {
  int64_t id = 0;
  JobRow job;  // its state, its device, its times
  std::string kernel_hash;
  // The submitter that owns the kernel; empty for the shared name space. Part of kernel_name.
  std::string name_space;
  std::string kernel_name;  // "attention", "alice/attention"
  Problem problem;
  std::string device_name;
  std::string target;
  std::string strategy;
  uint64_t budget_trials = 0;
  double budget_seconds = 0;
  uint64_t seed = 0;
  CacheMode cache_mode = CacheMode::kCold;
  bool fresh = false;
  std::string idempotency_key;  // unique if not empty
  // The result of the finished sweep: trial ids, 0 for none.
  int64_t best_trial_id = 0;
  int64_t default_trial_id = 0;
  std::vector<int64_t> tie_trial_ids;
  // The devices it may run on, the preferred first. Empty in rows of an older schema: its job's
  // device.
  std::vector<std::string> device_ids;
  double spent_seconds = 0;  // of budget_seconds, by turns that were interrupted
  // Final counts and the roof, for the server to show again; opaque to the store.
  std::string summary;
};
TUNE_FIELDS(SweepRow, id, job, kernel_hash, name_space, kernel_name, problem, device_name, target,
            strategy, budget_trials, budget_seconds, seed, cache_mode, fresh, idempotency_key,
            best_trial_id, default_trial_id, tie_trial_ids, device_ids, spent_seconds, summary);

// Thread-safe.
class SweepStore {
 public:
  virtual ~SweepStore() = default;

  // Adds the sweep with its job and sets both ids. If its idempotency key is known, returns the
  // existing sweep instead.
  virtual absl::StatusOr<SweepRow> AddSweep(SweepRow sweep) = 0;
  // Updates its job, and replaces result, spent_seconds and summary.
  virtual absl::Status UpdateSweep(const SweepRow& sweep) = 0;
  // Replaces spent_seconds alone, while the sweep runs. NOT_FOUND.
  virtual absl::Status NoteSpent(int64_t sweep_id, double spent_seconds) = 0;
  virtual absl::StatusOr<SweepRow> GetSweep(int64_t id) = 0;
  virtual absl::StatusOr<SweepRow> SweepOfJob(int64_t job_id) = 0;
  virtual absl::StatusOr<std::vector<SweepRow>> ListSweeps(uint32_t limit) = 0;  // newest first
  // Queued or running sweeps, oldest first: the queue of a restarted daemon.
  virtual absl::StatusOr<std::vector<SweepRow>> UnfinishedSweeps() = 0;
  // The highest id for which it and all lower sweeps will not change any more.
  virtual absl::StatusOr<int64_t> SettledSweep() = 0;
};

}  // namespace tune::db
