// SPDX-License-Identifier: Apache-2.0
// How the store's rows map to columns: one list of columns and one reader for each kind, so that
// every query that gives a sweep or a trial gives all of it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/statement.h"
#include "db/store.h"
#include "db/unreadable.h"

namespace tune::db {

// Reads the columns dims and dtype.
absl::Status ReadProblem(Statement& row, Problem& problem);

// Left out, messages are cut to 500 characters too: for lists that are held in memory.
enum class Samples { kLeaveOut, kLoad };

// The next two columns, dims and dtype.
absl::Status ReadProblem(Statement& row, Problem& problem);

// A job's columns, of table job; in the order of ReadJob.
extern const char kJobColumns[];
absl::StatusOr<JobRow> ReadJob(Statement& row);
absl::StatusOr<int64_t> InsertJob(Connection& connection, const JobRow& job);
// NOT_FOUND: no such job.
absl::Status ChangeJob(Connection& connection, const JobRow& job);

// "SELECT ... FROM sweep JOIN ..."; append WHERE and ORDER BY.
std::string SelectSweeps();
absl::StatusOr<SweepRow> ReadSweep(Statement& row);

// The same for trials (tables trial and trial_key).
std::string SelectTrials(Samples samples);
absl::StatusOr<Trial> ReadTrial(Statement& row);

// The same for the keys of trials (tables trial and trial_key).
std::string SelectTrialKeys();
// The same columns, each key once (tables trial_key and kernel).
std::string SelectKeysOfKernels();
absl::StatusOr<TrialKey> ReadTrialKey(Statement& row);

// The same for current records. Their trials come without samples.
std::string SelectCurrentRecords();
absl::StatusOr<RecordRow> ReadRecord(Statement& row);

// Reads every row of a query.
template <typename Row>
absl::StatusOr<std::vector<Row>> ReadAll(Statement& query,
                                         absl::StatusOr<Row> (*read)(Statement&)) {
  std::vector<Row> rows;
  while (true) {
    absl::StatusOr<bool> has_row = query.Step();
    if (!has_row.ok()) return has_row.status();
    if (!*has_row) return rows;
    absl::StatusOr<Row> row = read(query);
    if (!row.ok()) return row.status();
    rows.push_back(*std::move(row));
  }
}

// The same, but a row that cannot be read is noted and left out. REQUIRES: the first column is the
// row's id in `table`.
template <typename Row>
absl::StatusOr<std::vector<Row>> ReadReadable(Statement& query,
                                              absl::StatusOr<Row> (*read)(Statement&),
                                              Unreadable& unreadable, const char* table) {
  std::vector<Row> rows;
  while (true) {
    absl::StatusOr<bool> has_row = query.Step();
    if (!has_row.ok()) return has_row.status();
    if (!*has_row) return rows;
    const int64_t id = query.FirstInteger();
    absl::StatusOr<Row> row = read(query);
    if (row.ok()) {
      rows.push_back(*std::move(row));
    } else if (absl::IsDataLoss(row.status())) {
      unreadable.Note(table, id, std::string(row.status().message()));
    } else {
      return row.status();
    }
  }
}

// The id of a trial key, added if it is new. NOT_FOUND: the kernel is not stored.
absl::StatusOr<int64_t> AddTrialKey(Connection& connection, const TrialKey& key);
// 0 if there is no such key.
absl::StatusOr<int64_t> FindTrialKey(Connection& connection, const TrialKey& key);
absl::Status InsertTrial(Connection& connection, const Trial& trial, int64_t key_id);

}  // namespace tune::db
