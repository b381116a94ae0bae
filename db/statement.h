// SPDX-License-Identifier: Apache-2.0
// The adapter over SQLite's C API: connections, prepared statements, result codes as Status. No
// code outside db/ names a function of SQLite.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tune::db {

// How long a connection waits for a lock. Only another program that opens the file can hold one.
inline constexpr int kBusyTimeoutMs = 5000;

// The Status of an SQLite result code, with what was attempted and what to do. `handle` may be
// null when there is no connection.
absl::Status SqliteStatus(int code, sqlite3* handle, absl::string_view attempted);

// An id where 0 means none: NULL in the database.
struct OptionalId {
  int64_t value = 0;
};

// Bytes: BLOB in the database.
struct Blob {
  absl::string_view bytes;
};

// A use of a prepared statement: bind, step, read columns in order. The next step returns an error
// of preparing or binding. The destructor resets the statement.
//
// Not thread-safe. Lives no longer than its connection.
class Statement {
 public:
  Statement(sqlite3_stmt* prepared, absl::Status status)
      : prepared_(prepared), error_(std::move(status)) {}
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Binds the next parameters. Not-a-number becomes NULL, as SQLite has none.
  template <typename... T>
  Statement& Bind(const T&... values) {
    (BindOne(values), ...);
    return *this;
  }

  // True: there is a row. False: done.
  absl::StatusOr<bool> Step();
  // For statements whose rows, if any, do not matter.
  absl::Status Run();

  // Reads the next columns of the row. NULL reads as 0, "" or, for a double, not-a-number.
  template <typename... T>
  void Read(T&... values) {
    (ReadOne(values), ...);
  }
  // The row's first column, whatever was read of it.
  int64_t FirstInteger() const { return sqlite3_column_int64(prepared_, 0); }
  // The next column without a copy; valid until the next step.
  absl::string_view ReadView();

 private:
  template <typename T>
  void BindOne(const T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      BindReal(value);
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      BindInteger(static_cast<int64_t>(value));
    } else if constexpr (std::is_same_v<T, OptionalId>) {
      BindOptional(value);
    } else if constexpr (std::is_same_v<T, Blob>) {
      BindBytes(value.bytes, Bytes::kBlob);
    } else {
      BindBytes(absl::string_view(value), Bytes::kText);
    }
  }
  template <typename T>
  void ReadOne(T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      value = ReadReal();
    } else if constexpr (std::is_same_v<T, bool>) {
      value = ReadInteger() != 0;
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      value = static_cast<T>(ReadInteger());
    } else {
      value = std::string(ReadView());
    }
  }

  enum class Bytes { kText, kBlob };
  void BindReal(double value);
  void BindInteger(int64_t value);
  void BindOptional(OptionalId id);
  void BindBytes(absl::string_view bytes, Bytes type);
  void KeepError(int code);
  double ReadReal();
  int64_t ReadInteger();

  sqlite3_stmt* prepared_;  // null if preparing failed
  absl::Status error_;
  int next_parameter_ = 1;
  int next_column_ = 0;
};

// A connection with its prepared statements. Not thread-safe: one thread at a time.
class Connection {
 public:
  enum class Mode { kReadOnly, kReadWriteCreate };
  // REQUIRES: a read-only connection is opened after the writer's, which recovers the log.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const std::string& path, Mode mode);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Prepared once and kept, so the texts must be few. REQUIRES: the statement that the same text
  // gave before is gone.
  Statement Prepare(absl::string_view sql);
  // Runs a script without parameters.
  absl::Status Execute(const char* sql);
  // The one value of a query without parameters, such as a pragma.
  absl::StatusOr<int64_t> QueryInteger(const char* sql);
  absl::StatusOr<std::string> QueryText(const char* sql);

  int64_t last_insert_id() const { return sqlite3_last_insert_rowid(handle_); }
  int64_t changed_rows() const { return sqlite3_changes64(handle_); }
  bool in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }
  sqlite3* handle() const { return handle_; }

 private:
  explicit Connection(sqlite3* handle) : handle_(handle) {}
  sqlite3* const handle_;
  absl::flat_hash_map<std::string, sqlite3_stmt*> prepared_;
};

}  // namespace tune::db
