// SPDX-License-Identifier: Apache-2.0
#include "db/backup.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "db/checks.h"
#include "db/migrations.h"

namespace tune::db {
namespace {

namespace fs = std::filesystem;

absl::Status CopyPages(SqliteConnection& from, sqlite3* to, const std::string& to_path) {
  sqlite3_backup* backup = sqlite3_backup_init(to, "main", from.handle(), "main");
  if (backup == nullptr) return SqliteStatus(sqlite3_errcode(to), to, to_path);
  sqlite3_backup_step(backup, -1);
  return SqliteStatus(sqlite3_backup_finish(backup), to,
                      absl::StrCat("cannot write the backup ", to_path));
}

absl::Status Sync(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = fd >= 0 && fsync(fd) == 0;
  if (fd >= 0) close(fd);
  return synced ? absl::OkStatus()
                : absl::UnavailableError(absl::StrCat("cannot make ", path, " durable"));
}

absl::Status Rename(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot name ", from, " ", to, ": ", error.message()));
}

absl::Status CheckBackup(SqliteConnection& backup, const std::string& path) {
  const absl::StatusOr<int64_t> application = backup.QueryInteger("PRAGMA application_id");
  if (!application.ok() || *application != kApplicationId) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is no backup of a store; see the folder of tunectl store backup"));
  }
  ASSIGN_OR_RETURN(const int64_t version, backup.QueryInteger("PRAGMA user_version"));
  if (version < kOldestVersion || version > NewestVersion()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has schema version ", version, ", this program reads ", kOldestVersion,
                     " to ", NewestVersion(), ": restore it with the program that made it"));
  }
  return QuickCheck(backup, path);
}

}  // namespace

absl::Status CopyTo(SqliteConnection& from, const std::string& path) {
  const std::string partial = absl::StrCat(path, ".partial");
  std::error_code error;
  fs::remove(partial, error);
  {
    ASSIGN_OR_RETURN(std::unique_ptr<SqliteConnection> copy,
                     SqliteConnection::Open(partial, SqliteConnection::Mode::kReadWriteCreate));
    RETURN_IF_ERROR(CopyPages(from, copy->handle(), partial));
  }
  RETURN_IF_ERROR(Sync(partial));
  RETURN_IF_ERROR(Rename(partial, path));
  return Sync(fs::path(path).parent_path());
}

absl::StatusOr<std::string> PutInPlace(const std::string& backup, const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(backup, error)) {
    return absl::InvalidArgumentError(absl::StrCat("there is no file ", backup));
  }
  const std::string restored = absl::StrCat(path, ".restored");
  {
    ASSIGN_OR_RETURN(std::unique_ptr<SqliteConnection> reader,
                     SqliteConnection::Open(backup, SqliteConnection::Mode::kReadOnly));
    RETURN_IF_ERROR(CheckBackup(*reader, backup));
    RETURN_IF_ERROR(CopyTo(*reader, restored));
  }
  std::string kept;
  if (fs::exists(path, error)) {
    kept = absl::StrCat(path, ".before-",
                        absl::FormatTime("%Y%m%dT%H%M%S", absl::Now(), absl::UTCTimeZone()));
    // The log first: a database without its log would be an older one.
    for (const char* suffix : {"-wal", "-shm", ""}) {
      if (!fs::exists(path + suffix, error)) continue;
      RETURN_IF_ERROR(Rename(path + suffix, kept + suffix));
    }
  }
  RETURN_IF_ERROR(Rename(restored, path));
  RETURN_IF_ERROR(Sync(fs::path(path).parent_path()));
  return kept;
}

}  // namespace tune::db
