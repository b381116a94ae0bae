// SPDX-License-Identifier: Apache-2.0
// The rows that several queries return: jobs, sweeps, trials, their keys, records. Each noun has a
// SELECT to append to, a reader of a row of it, and what inserts or changes it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "db/columns.h"
#include "db/statement.h"
#include "db/store.h"
#include "lookup/record.h"
#include "tuner/trial_key.h"

namespace tune::db {

// kLeaveOut also cuts messages to 500 characters, for lists that stay in memory.
enum class Samples { kLeaveOut, kLoad };

absl::StatusOr<int64_t> InsertJob(Connection& connection, const JobRow& job);
// NOT_FOUND: no such job.
absl::Status ChangeJob(Connection& connection, const JobRow& job);

// "SELECT ... FROM sweep JOIN ..."; append WHERE and ORDER BY.
std::string SelectSweeps();
absl::StatusOr<SweepRow> ReadSweep(Statement& row);
// Gives the sweep and its job their ids.
absl::Status InsertSweep(Connection& connection, SweepRow& sweep);
// Store::UpdateSweep. NOT_FOUND: no such sweep.
absl::Status ChangeSweep(Connection& connection, const SweepRow& sweep);

// Trials (tables trial and trial_key).
std::string SelectTrials(Samples samples);
absl::StatusOr<Trial> ReadTrial(Statement& row);
absl::StatusOr<lookup::TimedConfig> ReadTimedConfig(Statement& row);  // config, latency_ns_median
absl::StatusOr<int64_t> InsertTrial(Connection& connection, Trial trial, int64_t key_id);

// The keys of trials (tables trial and trial_key).
std::string SelectTrialKeys();
// The columns of SelectTrialKeys, each key once (tables trial_key and kernel).
std::string SelectKeysOfKernels();
absl::StatusOr<TrialKey> ReadTrialKey(Statement& row);
// The id of a trial key, added if it is new. NOT_FOUND: the kernel is not stored.
absl::StatusOr<int64_t> AddTrialKey(Connection& connection, const TrialKey& key);
// 0 if there is no such key.
absl::StatusOr<int64_t> FindTrialKey(Connection& connection, const TrialKey& key);

// Current records. Their trials come without samples.
std::string SelectCurrentRecords();
// The columns of SelectCurrentRecords for every record, replaced ones too, under the name
// current_record.
std::string SelectRecords();
absl::StatusOr<lookup::Record> ReadRecord(Statement& row);

}  // namespace tune::db
