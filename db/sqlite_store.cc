// SPDX-License-Identifier: Apache-2.0
#include "db/sqlite_store.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "db/backup.h"
#include "db/log_check.h"
#include "db/migrations.h"
#include "db/postgres_dialect.h"
#include "db/postgres_store.h"
#include "db/sqlite_connection.h"

namespace tune::db {
namespace {

// A larger file is checked after it is opened (LargeStore::CheckFile): seconds a gigabyte.
constexpr uint64_t kCheckedBytesMax = 64 << 20;

// Symbolic links resolved, so that two names of one file share one lock.
absl::StatusOr<std::string> CanonicalPath(const std::string& path) {
  std::error_code error;
  std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (!error) absolute = std::filesystem::weakly_canonical(absolute, error);
  std::error_code no_folder;
  if (!error && absolute.has_filename() && !std::filesystem::is_directory(absolute, no_folder)) {
    return absolute.string();
  }
  return absl::InvalidArgumentError(absl::StrCat("'", path, "' is not the path of a file"));
}

bool IsCheckedAtOnce(const std::string& path) {
  std::error_code error;
  return std::filesystem::file_size(path, error) <= kCheckedBytesMax || error;
}

absl::Status PrepareFile(SqliteConnection& connection, const std::string& path) {
  // The first read of the file: damage to its header shows here.
  RETURN_IF_ERROR(connection.QueryInteger("PRAGMA schema_version").status());
  if (IsCheckedAtOnce(path)) RETURN_IF_ERROR(QuickCheck(connection, path));
  RETURN_IF_ERROR(Migrate(connection, path, SchemaSteps()));
  ASSIGN_OR_RETURN(std::string mode, connection.QueryText("PRAGMA journal_mode = WAL"));
  if (mode != "wal") {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " cannot use a write-ahead log (SQLite keeps mode '", mode,
                     "'); choose a folder on a local disk"));
  }
  return connection.Execute("PRAGMA synchronous = FULL");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& path,
                                                   const StoreOptions& options) {
  if (IsPostgresUrl(path)) return PostgresStore::Open(path, options);
  ASSIGN_OR_RETURN(std::string canonical, CanonicalPath(path));
  RETURN_IF_ERROR(CheckFileSystem(canonical));
  ASSIGN_OR_RETURN(std::unique_ptr<FileLock> lock, FileLock::Take(canonical));
  std::string dropped;
  if (options.drop_damaged_log) {
    ASSIGN_OR_RETURN(dropped, DropDamagedLog(canonical, absl::ToUnixMillis(absl::Now())));
  } else {
    RETURN_IF_ERROR(CheckLog(canonical));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<SqliteConnection> writer,
                   SqliteConnection::Open(canonical, SqliteConnection::Mode::kReadWriteCreate));
  if (absl::Status prepared = PrepareFile(*writer, canonical); !prepared.ok()) {
    return absl::Status(prepared.code(), absl::StrCat("cannot open the database ", canonical, ": ",
                                                      prepared.message()));
  }
  auto store =
      std::make_unique<SqliteStore>(std::move(lock), std::move(writer), canonical, options);
  if (!dropped.empty()) store->NoteUnreadable({.table = "log", .why = dropped});
  return store;
}

absl::StatusOr<std::unique_ptr<Store>> Store::OpenToRead(const std::string& path) {
  ASSIGN_OR_RETURN(std::string canonical, CanonicalPath(path));
  std::error_code error;
  if (!std::filesystem::exists(canonical, error)) {
    return absl::NotFoundError(absl::StrCat("there is no database ", canonical, " yet"));
  }
  RETURN_IF_ERROR(CheckFileSystem(canonical));
  ASSIGN_OR_RETURN(std::unique_ptr<SqliteConnection> reader,
                   SqliteConnection::Open(canonical, SqliteConnection::Mode::kReadOnly));
  const absl::StatusOr<int64_t> read = reader->QueryInteger("PRAGMA user_version");
  if (!read.ok()) {
    return absl::Status(read.status().code(),
                        absl::StrCat("'", canonical, "': ", read.status().message()));
  }
  const int64_t version = *read;
  const int64_t newest = NewestVersion();
  if (version != newest) {
    return absl::FailedPreconditionError(absl::StrCat(canonical, " has schema version ", version,
                                                      ", this program reads version ", newest));
  }
  return std::make_unique<SqliteStore>(nullptr, nullptr, canonical, StoreOptions());
}

absl::StatusOr<std::string> Store::Restore(const std::string& backup, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string canonical, CanonicalPath(path));
  RETURN_IF_ERROR(CheckFileSystem(canonical));
  ASSIGN_OR_RETURN(const std::unique_ptr<FileLock> lock, FileLock::Take(canonical));
  return PutInPlace(backup, canonical);
}

std::string Store::WriterOf(const std::string& path) {
  const absl::StatusOr<std::string> canonical = CanonicalPath(path);
  return canonical.ok() ? FileLock::Holder(*canonical) : "";
}

SqliteStore::SqliteStore(std::unique_ptr<FileLock> lock, std::unique_ptr<Connection> writer,
                         const std::string& path, const StoreOptions& options)
    : FileLockHolder{std::move(lock)},
      SqlStore(
          std::move(writer),
          [path] { return SqliteConnection::Open(path, SqliteConnection::Mode::kReadOnly); },
          options),
      path_(path) {}

absl::Status SqliteStore::CheckFile(const Cancelled& cancelled) {
  if (IsCheckedAtOnce(path_)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::unique_ptr<SqliteConnection> reader, OpenReader());
  return QuickCheck(*reader, path_, cancelled);
}

absl::Status SqliteStore::CheckAll(const Cancelled& cancelled) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SqliteConnection> reader, OpenReader());
  RETURN_IF_ERROR(QuickCheck(*reader, path_, cancelled));
  Statement query = reader->Prepare("PRAGMA foreign_key_check");
  ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) return absl::OkStatus();
  std::string table, parent;
  int64_t row = 0;
  query.Read(table, row, parent);
  return absl::DataLossError(absl::StrCat(path_, ": row ", row, " of ", table,
                                          " refers to a row of ", parent,
                                          " that is not there; put a backup in its place"));
}

absl::Status SqliteStore::BackUp(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SqliteConnection> reader, OpenReader());
  return CopyTo(*reader, path);
}

}  // namespace tune::db
