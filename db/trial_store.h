// SPDX-License-Identifier: Apache-2.0
// The part of a store (db/store.h) for trials. Trials of sweeps. Evidence: a trial never changes
// once it is stored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fields.h"
#include "lookup/record.h"
#include "tuner/trial.h"
#include "tuner/trial_key.h"

namespace tune::db {

struct SweepRow;

// The most trials of a key that a call returns by default.
inline constexpr uint32_t kKnownTrialsMax = 50000;

// A trial as a point of a picture: without its config, its message and its samples.
struct TrialPoint {
  int64_t id = 0;
  TrialPurpose purpose = TrialPurpose::kSearch;
  Outcome outcome = Outcome::kOk;
  double latency_ns_median = 0;
  double latency_ns_low = 0;
  double latency_ns_high = 0;
  double evaluate_seconds = 0;
  int64_t finished_unix_ms = 0;
};
TUNE_FIELDS(TrialPoint, id, purpose, outcome, latency_ns_median, latency_ns_low, latency_ns_high,
            evaluate_seconds, finished_unix_ms);

// Thread-safe.
class TrialStore {
 public:
  virtual ~TrialStore() = default;

  // Appends a trial with its samples and returns its id. Never changed afterwards.
  virtual absl::StatusOr<int64_t> AppendTrial(const Trial& trial, const TrialKey& key) = 0;
  virtual absl::StatusOr<Trial> GetTrial(int64_t id) = 0;
  // The key under which a trial was measured.
  virtual absl::StatusOr<TrialKey> KeyOfTrial(int64_t id) = 0;
  virtual absl::StatusOr<std::vector<Trial>> TrialsOfSweep(int64_t sweep_id) = 0;  // oldest first
  // The newest `limit` trials of a sweep as points, oldest first.
  virtual absl::StatusOr<std::vector<TrialPoint>> PointsOfSweep(int64_t sweep_id,
                                                                uint32_t limit) = 0;
  // At most `limit` trials after `trial_id` (0: from the first), to read a long sweep in pages.
  virtual absl::StatusOr<std::vector<Trial>> TrialsAfter(int64_t sweep_id, int64_t trial_id,
                                                         uint32_t limit) = 0;
  // The trials that a sweep of the same key can reuse: the newest search trial of each config whose
  // outcome is final. Final are ok, invalid_config, wrong_result, and a compile_failed that the
  // compiler reported (not Trial::may_pass). A config whose newest trial ended otherwise is left
  // out, so that it is tried again. Returns the newest `limit`, oldest first, without samples_ns
  // and with the first 500 characters of each message.
  virtual absl::StatusOr<std::vector<Trial>> TrialsOfKey(const TrialKey& key,
                                                         uint32_t limit = kKnownTrialsMax) = 0;
  // The trials that a sweep could reuse when it began: the result of TrialsOfKey at that time.
  // Empty for a fresh sweep.
  virtual absl::StatusOr<std::vector<Trial>> TrialsKnownTo(const SweepRow& sweep,
                                                           uint32_t limit = kKnownTrialsMax) = 0;
  // The newest `limit` trials of a sweep, oldest first, without samples_ns.
  virtual absl::StatusOr<std::vector<Trial>> NewestOfSweep(int64_t sweep_id, uint32_t limit) = 0;
  // The configs of a key whose newest search trial was ok, the fastest first.
  virtual absl::StatusOr<std::vector<lookup::TimedConfig>> FastestOfKey(const TrialKey& key,
                                                                        uint32_t limit) = 0;
  // The keys under which trials of a kernel are stored, of all its versions, newest first.
  virtual absl::StatusOr<std::vector<TrialKey>> TrialKeysOfKernel(const std::string& kernel_name,
                                                                  uint32_t limit) = 0;
  // The ids of a sweep's trials after one (0: from the first), at most `limit`, oldest first.
  virtual absl::StatusOr<std::vector<int64_t>> TrialIdsOf(int64_t sweep_id, int64_t after,
                                                          uint32_t limit) = 0;
  // The ids of the trials that TrialsKnownTo returns, paged as in TrialIdsOf.
  virtual absl::StatusOr<std::vector<int64_t>> TrialIdsKnownTo(const SweepRow& sweep, int64_t after,
                                                               uint32_t limit) = 0;
  // The trials with these ids, oldest first; missing ids are left out. Unless `whole`, without
  // samples and with the first 500 characters of each message.
  virtual absl::StatusOr<std::vector<Trial>> TrialsWithIds(const std::vector<int64_t>& ids,
                                                           bool whole) = 0;
};

}  // namespace tune::db
