// SPDX-License-Identifier: Apache-2.0
// The adapter over SQLite's C API: connections, prepared statements, result codes as Status. No
// code outside db/ names a function of SQLite.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/statement.h"

namespace tune::db {

// How long a connection waits for a lock. Only another program that opens the file can hold one.
inline constexpr int kBusyTimeoutMs = 5000;

// The Status of an SQLite result code, with what was attempted and what to do. `handle` may be
// null when there is no connection.
absl::Status SqliteStatus(int code, sqlite3* handle, absl::string_view attempted);

// Every checkpoint is made by Maintain, on the writer's connection.
class SqliteConnection final : public Connection {
 public:
  enum class Mode { kReadOnly, kReadWriteCreate };
  // REQUIRES: a read-only connection is opened after the writer's, which recovers the log.
  static absl::StatusOr<std::unique_ptr<SqliteConnection>> Open(const std::string& path, Mode mode);
  ~SqliteConnection() override;

  absl::Status Execute(const std::string& script) override;
  int64_t changed_rows() const override { return sqlite3_changes64(handle_); }
  bool in_transaction() const override { return sqlite3_get_autocommit(handle_) == 0; }
  // IMMEDIATE: the write lock is taken here, where waiting for it is safe.
  absl::Status BeginWriting() override { return Prepare("BEGIN IMMEDIATE").Run(); }
  absl::Status AppendAlone(absl::string_view) override { return absl::OkStatus(); }
  absl::StatusOr<int64_t> SchemaVersion() override { return QueryInteger("PRAGMA user_version"); }
  std::string EngineVersion() const override;
  After AfterFailure() override { return After::kNothing; }
  bool Maintain(bool idle) override;

  sqlite3* handle() const { return handle_; }

 private:
  explicit SqliteConnection(sqlite3* handle) : handle_(handle) {}
  absl::StatusOr<std::unique_ptr<Prepared>> MakePrepared(absl::string_view sql) override;

  sqlite3* const handle_;
  int log_pages_ = 0;  // in the write-ahead log, as of this connection's last commit
};

}  // namespace tune::db
