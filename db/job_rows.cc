// SPDX-License-Identifier: Apache-2.0
// SqlStore's calls about jobs.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "db/job.h"
#include "db/rows.h"
#include "db/sql_store.h"

namespace tune::db {
namespace {

constexpr uint32_t kJobsListedMax = 100000;

// The one value of a query by a job's id; empty if there is no row.
absl::StatusOr<std::string> ReadBlob(Readers& readers, absl::string_view sql, int64_t job_id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers.Borrow());
  Statement query = reader->Prepare(sql);
  query.Bind(job_id);
  std::string blob;
  ASSIGN_OR_RETURN(const bool found, query.Step());
  if (found) query.Read(blob);
  return blob;
}

}  // namespace

absl::StatusOr<int64_t> InsertJob(Connection& connection, const JobRow& job) {
  return InsertNew(connection, "job", job, {{"id"}});
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

absl::StatusOr<int64_t> SqlStore::AddJob(const JobRow& job, const std::string& request) {
  return writer_.Compute<int64_t>(
      [job, request](Connection& connection) -> absl::StatusOr<int64_t> {
        ASSIGN_OR_RETURN(const int64_t id, InsertJob(connection, job));
        if (request.empty()) return id;
        Statement insert =
            connection.Prepare("INSERT INTO job_request (job_id, request) VALUES (?, ?)");
        RETURN_IF_ERROR(insert.Bind(id, Blob{request}).Run());
        return id;
      });
}

absl::Status SqlStore::UpdateJob(const JobRow& job) {
  return writer_.Run([job](Connection& connection) { return ChangeJob(connection, job); });
}

absl::StatusOr<std::string> SqlStore::JobRequest(int64_t id) {
  return ReadBlob(readers_, "SELECT request FROM job_request WHERE job_id = ?", id);
}

absl::Status SqlStore::PutJobEnd(int64_t id, const std::string& event) {
  return writer_.Run([id, event](Connection& connection) {
    Statement insert = connection.Prepare(
        "INSERT INTO job_end (job_id, event) VALUES (?, ?) ON CONFLICT DO NOTHING");
    return insert.Bind(id, Blob{event}).Run();
  });
}

absl::StatusOr<std::string> SqlStore::JobEnd(int64_t id) {
  return ReadBlob(readers_, "SELECT event FROM job_end WHERE job_id = ?", id);
}

absl::StatusOr<JobRow> SqlStore::GetJob(int64_t id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  ASSIGN_OR_RETURN(auto jobs, Select<JobRow>(*reader, {}, "job WHERE id = ?", id));
  if (!jobs.empty()) return std::move(jobs.front());
  return absl::NotFoundError(absl::StrCat("no job ", id, "; see `tunectl job list`"));
}

absl::StatusOr<std::vector<JobRow>> SqlStore::ListJobs(const JobFilter& filter) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query = reader->Prepare(absl::StrCat(
      "SELECT ", ColumnsOf<JobRow>(), " FROM job WHERE (?1 = 0 OR job.kind = ?1) ",
      filter.unfinished ? "AND job.state IN (1, 2) " : "",
      "AND (?3 = '' OR job.owner = ?3) AND job.id < ?4 ORDER BY job.id DESC LIMIT ?2"));
  query.Bind(static_cast<int64_t>(filter.kind), std::min(filter.limit, kJobsListedMax),
             filter.owner, filter.before_id);
  return ReadReadable(
      query, [](Statement& row) { return ReadRow<JobRow>(row); }, unreadable_, "job");
}

}  // namespace tune::db
