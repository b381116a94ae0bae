// SPDX-License-Identifier: Apache-2.0
// The seam between the store's queries and the engine that runs them: connections and prepared
// statements. Queries are written once, in the SQL that SQLite and PostgreSQL share, with `?` for
// parameters; what one of them lacks its engine adds (sqlite_connection.h, postgres_connection.h).
//
//   Statement find = connection.Prepare("SELECT name FROM kernel WHERE hash = ?");
//   ASSIGN_OR_RETURN(const bool found, find.Bind(hash).Step());
//   if (found) find.Read(name);
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tune::db {

// An id where 0 means none: NULL in the database.
struct OptionalId {
  int64_t value = 0;
};

// Bytes: BLOB in SQLite, BYTEA in PostgreSQL.
struct Blob {
  absl::string_view bytes;
};

// NULL that stands in the place of an integer or of a double.
struct NullInteger {};
struct NullReal {};
using Parameter = std::variant<int64_t, double, absl::string_view, Blob, NullInteger, NullReal>;

// An engine's prepared statement, which Statement uses. Parameters and columns count from 0.
class Prepared {
 public:
  virtual ~Prepared() = default;
  virtual absl::Status Bind(int index, const Parameter& value) = 0;
  virtual absl::StatusOr<bool> Step() = 0;
  // Discards rows and parameters.
  virtual void Reset() = 0;
  virtual bool IsNull(int column) = 0;
  virtual int64_t Integer(int column) = 0;
  virtual double Real(int column) = 0;
  virtual absl::string_view Bytes(int column) = 0;  // valid until the next step
};

// A use of a prepared statement: bind, step, read columns in order. The next step returns an error
// of preparing or binding. The destructor resets the statement.
//
// Not thread-safe. Lives no longer than its connection.
class Statement {
 public:
  explicit Statement(absl::StatusOr<Prepared*> prepared)
      : prepared_(prepared.ok() ? *prepared : nullptr), error_(prepared.status()) {}
  ~Statement() {
    if (prepared_ != nullptr) prepared_->Reset();
  }
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
  int64_t FirstInteger() const { return prepared_->Integer(0); }
  // The next column without a copy; valid until the next step.
  absl::string_view ReadView() { return prepared_->Bytes(next_column_++); }

 private:
  template <typename T>
  void BindOne(const T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      value == value ? BindNext(static_cast<double>(value)) : BindNext(NullReal{});
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      BindNext(static_cast<int64_t>(value));
    } else if constexpr (std::is_same_v<T, OptionalId>) {
      value.value != 0 ? BindNext(value.value) : BindNext(NullInteger{});
    } else if constexpr (std::is_same_v<T, Blob>) {
      BindNext(value);
    } else {
      BindNext(absl::string_view(value));
    }
  }
  template <typename T>
  void ReadOne(T& value) {
    const int column = next_column_++;
    if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(ReadReal(column));
    } else if constexpr (std::is_same_v<T, bool>) {
      value = prepared_->Integer(column) != 0;
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      value = static_cast<T>(prepared_->Integer(column));
    } else {
      value = std::string(prepared_->Bytes(column));
    }
  }

  void BindNext(const Parameter& value) {
    if (error_.ok()) error_ = prepared_->Bind(next_parameter_++, value);
  }
  double ReadReal(int column);

  Prepared* prepared_;  // null if preparing failed
  absl::Status error_;
  int next_parameter_ = 0;
  int next_column_ = 0;
};

// A connection with its prepared statements. Not thread-safe: one thread at a time.
class Connection {
 public:
  Connection() = default;
  virtual ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Prepared once and kept, so the texts must be few. REQUIRES: the statement that the same text
  // gave before is gone.
  Statement Prepare(absl::string_view sql);
  // Runs a script without parameters.
  virtual absl::Status Execute(const std::string& script) = 0;
  // The one value of a query without parameters, such as a pragma.
  absl::StatusOr<int64_t> QueryInteger(const char* sql);
  absl::StatusOr<std::string> QueryText(const char* sql);

  // Rows that the last statement inserted, updated or deleted.
  virtual int64_t changed_rows() const = 0;
  // False also after an error that ended the transaction.
  virtual bool in_transaction() const = 0;
  // Begins a transaction that writes.
  virtual absl::Status BeginWriting() = 0;
  // Makes the rows that others add to the table from now on come after this transaction's, by id
  // and in the order in which they become visible.
  virtual absl::Status AppendAlone(absl::string_view table) = 0;
  virtual absl::StatusOr<int64_t> SchemaVersion() = 0;
  virtual std::string EngineVersion() const = 0;  // "SQLite 3.40.1"

  // Finds out what became of a transaction that failed with an error of BeginWriting, COMMIT or a
  // statement that ended it. Connects again if need be.
  enum class After {
    kNothing,  // no second try helps
    kAgain,    // nothing was stored, and a second try may succeed: it lost a deadlock, or the
               // connection
    kCommitted,
  };
  virtual After AfterFailure() = 0;
  // Called by the writer after a commit, and when no write came for a while. True: a later call
  // has more to do.
  virtual bool Maintain(bool idle) = 0;

 protected:
  virtual absl::StatusOr<std::unique_ptr<Prepared>> MakePrepared(absl::string_view sql) = 0;
  void ForgetPrepared() { prepared_.clear(); }

 private:
  absl::flat_hash_map<std::string, std::unique_ptr<Prepared>> prepared_;
};

}  // namespace tune::db
