// SPDX-License-Identifier: Apache-2.0
// The part of a store (db/store.h) for records. Records: each points to the trial that is its
// evidence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lookup/record.h"

namespace tune::db {

struct SweepRow;

// Thread-safe.
class RecordStore {
 public:
  virtual ~RecordStore() = default;

  // Publishes a record, which replaces the current one of its key (kernel hash, include digest,
  // problem, device, target, cache mode, name space of its sweep). Ids grow with every publish. A
  // trial is published once: a repeated call returns the existing record, so a call whose outcome
  // is unknown may be repeated. INVALID_ARGUMENT if the trial is not an ok confirmation, or was
  // measured under another key. `done`, if not null, is the sweep that found it, and is updated in
  // the same transaction.
  virtual absl::StatusOr<int64_t> PublishRecord(const lookup::Record& record,
                                                const SweepRow* done = nullptr) = 0;
  // Oldest first, without samples_ns.
  virtual absl::StatusOr<std::vector<lookup::Record>> CurrentRecords() = 0;
  // Publishes the confirmed winner of every finished sweep that neither a record of that sweep nor
  // one of a later sweep of the same key covers. Used after records were removed. Looks at the
  // sweeps with higher ids than `after_sweep_id` alone. Returns the number published.
  virtual absl::StatusOr<int64_t> RebuildRecords(int64_t after_sweep_id = 0) = 0;
  // Every record published after `record_id`, oldest first, without samples_ns. Unlike
  // CurrentRecords, includes records that a newer one replaced.
  virtual absl::StatusOr<std::vector<lookup::Record>> RecordsAfter(int64_t record_id) = 0;
  // The newest `count` records, replaced ones included, newest first, without samples_ns.
  virtual absl::StatusOr<std::vector<lookup::Record>> NewestRecords(size_t count) = 0;
  // A text that stays the same as long as no record up to this id is added or removed.
  virtual absl::StatusOr<std::string> FingerprintOfRecords(int64_t record_id) = 0;
};

}  // namespace tune::db
