// SPDX-License-Identifier: Apache-2.0
// SqliteStore's calls about jobs.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "db/job.h"
#include "db/rows.h"
#include "db/sqlite_store.h"
#include "tuner/status_macros.h"

namespace tune::db {
namespace {

constexpr uint32_t kListedMax = 100000;

std::string SelectJobs() { return absl::StrCat("SELECT ", kJobColumns, " FROM job "); }

}  // namespace

const char kJobColumns[] =
    "job.id, job.kind, job.state, job.priority, job.owner, job.subject, job.device_id, "
    "job.message, job.created_unix_ms, job.started_unix_ms, job.finished_unix_ms, job.deaths";

absl::StatusOr<JobRow> ReadJob(Statement& row) {
  JobRow job;
  row.Read(job.id, job.kind, job.state, job.priority, job.owner, job.subject, job.device_id,
           job.message, job.created_unix_ms, job.started_unix_ms, job.finished_unix_ms, job.deaths);
  return job;
}

absl::StatusOr<int64_t> InsertJob(Connection& connection, const JobRow& job) {
  Statement insert = connection.Prepare(
      "INSERT INTO job (kind, state, priority, owner, subject, device_id, message, "
      "created_unix_ms, started_unix_ms, finished_unix_ms, deaths) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  insert.Bind(job.kind, job.state, job.priority, job.owner, job.subject, job.device_id, job.message,
              job.created_unix_ms, job.started_unix_ms, job.finished_unix_ms, job.deaths);
  RETURN_IF_ERROR(insert.Run());
  return connection.last_insert_id();
}

absl::Status ChangeJob(Connection& connection, const JobRow& job) {
  Statement update = connection.Prepare(
      "UPDATE job SET state = ?, device_id = ?, message = ?, started_unix_ms = ?, "
      "finished_unix_ms = ?, deaths = ? WHERE id = ?");
  update.Bind(job.state, job.device_id, job.message, job.started_unix_ms, job.finished_unix_ms,
              job.deaths, job.id);
  RETURN_IF_ERROR(update.Run());
  if (connection.changed_rows() == 1) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("no job ", job.id));
}

absl::StatusOr<int64_t> SqliteStore::AddJob(const JobRow& job) {
  return writer_.Compute<int64_t>(
      [job](Connection& connection) { return InsertJob(connection, job); });
}

absl::Status SqliteStore::UpdateJob(const JobRow& job) {
  return writer_.Run([job](Connection& connection) { return ChangeJob(connection, job); });
}

absl::StatusOr<JobRow> SqliteStore::GetJob(int64_t id) {
  ASSIGN_OR_RETURN(Readers::Lease reader, readers_.Borrow());
  Statement find = reader->Prepare(absl::StrCat(SelectJobs(), "WHERE job.id = ?"));
  ASSIGN_OR_RETURN(bool found, find.Bind(id).Step());
  if (!found) return absl::NotFoundError(absl::StrCat("no job ", id, "; see `tunectl job list`"));
  return ReadJob(find);
}

absl::StatusOr<std::vector<JobRow>> SqliteStore::ListJobs(const JobFilter& filter) {
  ASSIGN_OR_RETURN(Readers::Lease reader, readers_.Borrow());
  Statement query = reader->Prepare(
      absl::StrCat(SelectJobs(), "WHERE (?1 = 0 OR job.kind = ?1) ",
                   filter.unfinished ? "AND job.state IN (1, 2) " : "",
                   "ORDER BY job.id DESC LIMIT ?2"));
  query.Bind(static_cast<int64_t>(filter.kind), std::min(filter.limit, kListedMax));
  return ReadReadable(query, ReadJob, unreadable_, "job");
}

}  // namespace tune::db
