// SPDX-License-Identifier: Apache-2.0
// The part of a store (db/store.h) for a daemon that serves before it has read all of a large one.
// The daemon asks what has changed since its last look, and reads long lists in pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/cancelled.h"
#include "lookup/record.h"
#include "tuner/trial.h"

namespace tune::db {

struct SweepRow;

// Thread-safe.
class LargeStore {
 public:
  virtual ~LargeStore() = default;

  // Every record published after `record_id`, oldest first, without samples_ns. Unlike
  // CurrentRecords, includes records that a newer one replaced.
  virtual absl::StatusOr<std::vector<lookup::Record>> RecordsAfter(int64_t record_id) = 0;
  // The newest `count` records, replaced ones included, newest first, without samples_ns.
  virtual absl::StatusOr<std::vector<lookup::Record>> NewestRecords(size_t count) = 0;
  // A text that stays the same as long as no record up to this id is added or removed.
  virtual absl::StatusOr<std::string> FingerprintOfRecords(int64_t record_id) = 0;
  // The highest id for which it and all lower sweeps will not change any more.
  virtual absl::StatusOr<int64_t> SettledSweep() = 0;
  // The ids of a sweep's trials after one (0: from the first), at most `limit`, oldest first.
  virtual absl::StatusOr<std::vector<int64_t>> TrialIdsOf(int64_t sweep_id, int64_t after,
                                                          uint32_t limit) = 0;
  // The ids of the trials that Store::TrialsKnownTo returns, paged as in TrialIdsOf.
  virtual absl::StatusOr<std::vector<int64_t>> TrialIdsKnownTo(const SweepRow& sweep, int64_t after,
                                                               uint32_t limit) = 0;
  // The trials with these ids, oldest first; missing ids are left out. Unless `whole`, without
  // samples and with the first 500 characters of each message.
  virtual absl::StatusOr<std::vector<Trial>> TrialsWithIds(const std::vector<int64_t>& ids,
                                                           bool whole) = 0;
  // Checks the whole file, which Store::Open leaves out for a file where it would take long.
  // DATA_LOSS; CANCELLED.
  virtual absl::Status CheckFile(const Cancelled& cancelled) = 0;
};

}  // namespace tune::db
