// SPDX-License-Identifier: Apache-2.0
// What lets a daemon serve before it has read all of a large store, beside what every user of a
// store needs (db/store.h). It asks what has changed since it last looked, and reads what there is
// much of in pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/cancelled.h"
#include "db/store.h"
#include "lookup/record.h"

namespace tune::db {

// Thread-safe.
class LargeStore {
 public:
  // Null: the store offers none of this.
  static LargeStore* Of(Store& store) { return dynamic_cast<LargeStore*>(&store); }
  virtual ~LargeStore() = default;

  // Every record published after one, oldest first, without samples_ns. Unlike in CurrentRecords,
  // those that a newer one has replaced are among them.
  virtual absl::StatusOr<std::vector<lookup::Record>> RecordsAfter(int64_t record_id) = 0;
  // The newest so many, newest first, likewise.
  virtual absl::StatusOr<std::vector<lookup::Record>> NewestRecords(size_t count) = 0;
  // The same text as long as no record up to this one is added or removed.
  virtual absl::StatusOr<std::string> FingerprintOfRecords(int64_t record_id) = 0;
  // Store::RebuildRecords, of sweeps with higher ids alone.
  virtual absl::StatusOr<int64_t> RebuildRecordsAfter(int64_t sweep_id) = 0;
  // No sweep up to this id will change any more.
  virtual absl::StatusOr<int64_t> SettledSweep() = 0;
  // The ids of a sweep's trials after one (0: from the first), at most `limit`, oldest first.
  virtual absl::StatusOr<std::vector<int64_t>> TrialIdsOf(int64_t sweep_id, int64_t after,
                                                          uint32_t limit) = 0;
  // Like the above, for the trials that Store::TrialsKnownTo gives.
  virtual absl::StatusOr<std::vector<int64_t>> TrialIdsKnownTo(const SweepRow& sweep, int64_t after,
                                                               uint32_t limit) = 0;
  // Those there are, oldest first; whole, or without samples and with the first 500 characters of
  // each message.
  virtual absl::StatusOr<std::vector<Trial>> TrialsWithIds(const std::vector<int64_t>& ids,
                                                           bool whole) = 0;
  // The check of the whole file that Store::Open leaves out where it would take long. DATA_LOSS;
  // CANCELLED.
  virtual absl::Status CheckFile(const Cancelled& cancelled) = 0;
};

}  // namespace tune::db
