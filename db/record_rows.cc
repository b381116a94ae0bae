// SPDX-License-Identifier: Apache-2.0
// SqlStore's calls about records.
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "db/rows.h"
#include "db/sql_store.h"

namespace tune::db {
namespace {

// The key under which a trial was measured must be the record's: a record says what was measured.
absl::Status CheckRecord(Connection& connection, const lookup::Record& record) {
  Statement find = connection.Prepare("SELECT key_id, outcome, purpose FROM trial WHERE id = ?");
  ASSIGN_OR_RETURN(bool found, find.Bind(record.trial.id).Step());
  if (!found) {
    return absl::NotFoundError(
        absl::StrCat("no trial ", record.trial.id, " to publish; append it before its record"));
  }
  int64_t trial_key_id = 0;
  Outcome outcome = Outcome::kOk;
  TrialPurpose purpose = TrialPurpose::kSearch;
  find.Read(trial_key_id, outcome, purpose);
  if (outcome != Outcome::kOk) {
    return absl::InvalidArgumentError(absl::StrCat(
        "trial ", record.trial.id, " is ", ToText(outcome), "; only an ok trial makes a record"));
  }
  if (purpose != TrialPurpose::kConfirm) {
    return absl::InvalidArgumentError(absl::StrCat("trial ", record.trial.id,
                                                   " is of a search; only a confirmed one makes a "
                                                   "record"));
  }
  ASSIGN_OR_RETURN(int64_t key_id, FindTrialKey(connection, record.key));
  if (key_id == trial_key_id) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the record's key is not the one of its trial ", record.trial.id));
}

// The confirmed winners of finished sweeps that no record of that sweep or a later one of the same
// key covers. The best of a sweep that confirmed nothing is a trial of its search.
constexpr char kUnpublished[] =
    "FROM sweep JOIN job ON job.id = sweep.job_id JOIN trial ON trial.id = sweep.best_trial_id "
    "JOIN trial_key AS key ON key.id = trial.key_id "
    "LEFT JOIN trial AS untuned ON untuned.id = sweep.default_trial_id "
    "WHERE sweep.id > ? AND job.state = ? AND trial.outcome = ? AND trial.purpose = ? "
    "AND trial.sweep_id = sweep.id AND NOT EXISTS ("
    "SELECT 1 FROM record JOIN trial AS other ON other.id = record.trial_id "
    "JOIN trial_key AS other_key ON other_key.id = other.key_id "
    "JOIN sweep AS other_sweep ON other_sweep.id = other.sweep_id "
    "WHERE other.sweep_id >= sweep.id AND other_key.kernel_hash = key.kernel_hash "
    "AND other_key.dims = key.dims AND other_key.dtype = key.dtype "
    "AND other_key.device_name = key.device_name AND other_key.target = key.target "
    "AND other_key.cache_mode = key.cache_mode "
    "AND other_key.include_digest = key.include_digest "
    "AND other_sweep.name_space = sweep.name_space)";

Statement& BindUnpublished(Statement& query, int64_t sweep_id) {
  return query.Bind(sweep_id, JobState::kDone, Outcome::kOk, TrialPurpose::kConfirm);
}

// How many records since one, up to another, are the first of their key.
constexpr char kCountFirst[] =
    "SELECT count(*) FROM record JOIN trial ON trial.id = record.trial_id "
    "JOIN trial_key AS key ON key.id = trial.key_id "
    "JOIN sweep ON sweep.id = trial.sweep_id "
    "WHERE record.id > ? AND record.id <= ? AND NOT EXISTS ("
    "SELECT 1 FROM trial_key AS older_key JOIN trial AS older ON older.key_id = older_key.id "
    "JOIN record AS older_record ON older_record.trial_id = older.id "
    "JOIN sweep AS older_sweep ON older_sweep.id = older.sweep_id "
    "WHERE older_record.id < record.id AND older_key.kernel_hash = key.kernel_hash "
    "AND older_key.dims = key.dims AND older_key.dtype = key.dtype "
    "AND older_key.device_name = key.device_name AND older_key.target = key.target "
    "AND older_key.cache_mode = key.cache_mode "
    "AND older_key.include_digest = key.include_digest "
    "AND older_sweep.name_space = sweep.name_space)";

}  // namespace

absl::StatusOr<int64_t> SqlStore::CountRecords(Connection& reader) {
  MutexLock lock(count_mutex_);
  ASSIGN_OR_RETURN(const int64_t newest,
                   reader.QueryInteger("SELECT coalesce(max(id), 0) FROM record"));
  if (newest < counted_to_) counted_ = counted_to_ = 0;  // an operator removed some
  Statement query = reader.Prepare(kCountFirst);
  RETURN_IF_ERROR(query.Bind(counted_to_, newest).Step().status());
  counted_ += query.FirstInteger();
  counted_to_ = newest;
  return counted_;
}

absl::StatusOr<int64_t> SqlStore::PublishRecord(const lookup::Record& record,
                                                const SweepRow* done) {
  const std::optional<SweepRow> sweep =
      done == nullptr ? std::nullopt : std::optional<SweepRow>(*done);
  return writer_.Compute<int64_t>([=](Connection& connection) -> absl::StatusOr<int64_t> {
    RETURN_IF_ERROR(CheckRecord(connection, record));
    if (sweep) RETURN_IF_ERROR(ChangeSweep(connection, *sweep));
    Statement known = connection.Prepare("SELECT id FROM record WHERE trial_id = ?");
    ASSIGN_OR_RETURN(const bool is_published, known.Bind(record.trial.id).Step());
    if (is_published) return known.FirstInteger();
    RETURN_IF_ERROR(connection.AppendAlone("record"));
    Statement insert = connection.Prepare(
        "INSERT INTO record (trial_id, default_latency_ns, tie_count, published_unix_ms, artifact) "
        "VALUES (?, ?, ?, ?, ?) RETURNING id");
    insert.Bind(record.trial.id, record.default_latency_ns, record.tie_count,
                record.published_unix_ms, record.artifact);
    return ReturnedId(insert);
  });
}

absl::StatusOr<std::vector<lookup::Record>> SqlStore::CurrentRecords() {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query =
      reader->Prepare(absl::StrCat(SelectCurrentRecords(), "ORDER BY current_record.id"));
  return ReadReadable(query, ReadRecord, unreadable_, "record");
}

absl::StatusOr<std::vector<lookup::Record>> SqlStore::RecordsAfter(int64_t record_id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query = reader->Prepare(
      absl::StrCat(SelectRecords(), "WHERE current_record.id > ? ORDER BY current_record.id"));
  return ReadReadable(query.Bind(record_id), ReadRecord, unreadable_, "record");
}

absl::StatusOr<std::vector<lookup::Record>> SqlStore::NewestRecords(size_t count) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query =
      reader->Prepare(absl::StrCat(SelectRecords(), "ORDER BY current_record.id DESC LIMIT ?"));
  return ReadReadable(query.Bind(static_cast<int64_t>(count)), ReadRecord, unreadable_, "record");
}

absl::StatusOr<std::string> SqlStore::FingerprintOfRecords(int64_t record_id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query = reader->Prepare(
      "SELECT count(*) || ' records, the last ' || coalesce(max(id), 0) || ' of trial ' || "
      "coalesce((SELECT trial_id || ' at ' || published_unix_ms FROM record WHERE id = ?1), '') "
      "FROM record WHERE id <= ?1");
  RETURN_IF_ERROR(query.Bind(record_id).Step().status());
  std::string fingerprint;
  query.Read(fingerprint);
  return fingerprint;
}

absl::StatusOr<int64_t> SqlStore::RebuildRecords(int64_t sweep_id) {
  {
    // Nearly always there is none: no write waits while that is found out.
    ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
    Statement find = reader->Prepare(absl::StrCat("SELECT 1 ", kUnpublished, " LIMIT 1"));
    BindUnpublished(find, sweep_id);
    ASSIGN_OR_RETURN(const bool found, find.Step());
    if (!found) return 0;
  }
  return writer_.Compute<int64_t>([sweep_id](Connection& connection) -> absl::StatusOr<int64_t> {
    RETURN_IF_ERROR(connection.AppendAlone("record"));
    Statement rebuild = connection.Prepare(absl::StrCat(
        "INSERT INTO record (trial_id, default_latency_ns, tie_count, published_unix_ms) "
        "SELECT trial.id, CASE untuned.outcome WHEN 1 THEN untuned.latency_ns_median ELSE 0 END, "
        "CASE json_valid(sweep.tie_trial_ids) WHEN 1 THEN json_array_length(sweep.tie_trial_ids) "
        "ELSE 0 END, job.finished_unix_ms ",
        kUnpublished, " ORDER BY sweep.id"));
    RETURN_IF_ERROR(BindUnpublished(rebuild, sweep_id).Run());
    return connection.changed_rows();
  });
}

absl::StatusOr<int64_t> SqlStore::SettledSweep() {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  return reader->QueryInteger(
      "SELECT coalesce((SELECT min(sweep.id) - 1 FROM sweep WHERE job_id IN "
      "(SELECT id FROM job WHERE state IN (1, 2))), (SELECT max(id) FROM sweep), 0)");
}

}  // namespace tune::db
