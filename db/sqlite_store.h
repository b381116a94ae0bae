// SPDX-License-Identifier: Apache-2.0
// The store in an SQLite file of this host: opening, checking and copying the file.
#pragma once

#include <memory>
#include <string>

#include "db/checks.h"
#include "db/sql_store.h"
#include "db/sqlite_connection.h"

namespace tune::db {

// Base of SqliteStore, so that the lock goes when nothing has the file open.
struct FileLockHolder {
  std::unique_ptr<FileLock> lock;
};

// Thread-safe.
class SqliteStore final : private FileLockHolder, public SqlStore {
 public:
  // REQUIRES: `path` is locked by `lock`, and `writer` has brought it to the current schema; or
  // both are null, to read only, and the schema is the current one.
  SqliteStore(std::unique_ptr<FileLock> lock, std::unique_ptr<Connection> writer,
              const std::string& path, const StoreOptions& options);

  absl::Status CheckFile(const Cancelled& cancelled) override;
  absl::Status CheckAll(const Cancelled& cancelled) override;
  absl::Status BackUp(const std::string& path) override;

 private:
  // Outside the pool: a check reads the whole file, and other calls do not wait for it.
  absl::StatusOr<std::unique_ptr<SqliteConnection>> OpenReader() const {
    return SqliteConnection::Open(path_, SqliteConnection::Mode::kReadOnly);
  }
  const std::string path_;
};

}  // namespace tune::db
