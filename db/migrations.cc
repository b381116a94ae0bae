// SPDX-License-Identifier: Apache-2.0
#include "db/migrations.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "db/backup.h"

namespace tune::embedded {
extern const std::string_view schema_sql;
extern const std::string_view true_records_sql;
extern const std::string_view stored_bytes_sql;
extern const std::string_view job_requests_sql;
extern const std::string_view profile_owners_sql;
extern const std::string_view legs_sql;
extern const std::string_view counted_rows_sql;
}  // namespace tune::embedded

namespace tune::db {
namespace {

absl::Status CheckOwner(SqliteConnection& connection, const std::string& path, int64_t version) {
  ASSIGN_OR_RETURN(int64_t application, connection.QueryInteger("PRAGMA application_id"));
  if (application == kApplicationId) return absl::OkStatus();
  ASSIGN_OR_RETURN(int64_t objects, connection.QueryInteger("SELECT count(*) FROM sqlite_schema"));
  if (version == 0 && objects == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, " is a database of another program; choose another file"));
}

absl::Status RunStep(SqliteConnection& connection, absl::string_view step, int64_t version) {
  const std::string script =
      absl::StrCat("BEGIN IMMEDIATE;\n", step, "\n", "PRAGMA application_id = ", kApplicationId,
                   ";\n", "PRAGMA user_version = ", version, ";\nCOMMIT;");
  absl::Status status = connection.Execute(script);
  if (status.ok()) return status;
  if (connection.in_transaction()) connection.Execute("ROLLBACK").IgnoreError();
  return absl::Status(status.code(), absl::StrCat("schema step to version ", version,
                                                  " failed: ", status.message()));
}

}  // namespace

absl::Span<const absl::string_view> SchemaSteps() {
  const auto view = [](std::string_view text) {
    return absl::string_view(text.data(), text.size());
  };
  static const std::array<absl::string_view, 7> steps = {
      view(embedded::schema_sql),         view(embedded::true_records_sql),
      view(embedded::stored_bytes_sql),   view(embedded::job_requests_sql),
      view(embedded::profile_owners_sql), view(embedded::legs_sql),
      view(embedded::counted_rows_sql)};
  return steps;
}

int64_t NewestVersion(absl::Span<const absl::string_view> steps) {
  return kOldestVersion - 1 + static_cast<int64_t>(steps.size());
}

absl::Status Migrate(SqliteConnection& connection, const std::string& path,
                     absl::Span<const absl::string_view> steps) {
  ASSIGN_OR_RETURN(int64_t version, connection.QueryInteger("PRAGMA user_version"));
  RETURN_IF_ERROR(CheckOwner(connection, path, version));
  const int64_t newest = NewestVersion(steps);
  if (version > newest) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " has schema version ", version, ", this program knows ", newest,
                     "; use a newer program, or a backup of that version"));
  }
  if (version != 0 && version < kOldestVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " has schema version ", version, ", the oldest that this program opens is ",
        kOldestVersion, "; name another --state-dir, or move the file away"));
  }
  if (version == newest) return absl::OkStatus();
  if (version > 0) RETURN_IF_ERROR(CopyTo(connection, absl::StrCat(path, ".v", version, ".bak")));
  // A step may replace a table that others refer to. SQLite takes this between transactions alone.
  RETURN_IF_ERROR(connection.Execute("PRAGMA foreign_keys = OFF"));
  for (int64_t to = std::max(version + 1, kOldestVersion); to <= newest; ++to) {
    RETURN_IF_ERROR(RunStep(connection, steps[static_cast<size_t>(to - kOldestVersion)], to));
  }
  return connection.Execute("PRAGMA foreign_keys = ON");
}

}  // namespace tune::db
