// SPDX-License-Identifier: Apache-2.0
#include "db/statement.h"

#include <cerrno>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::db {
namespace {

// Larger rows are refused: the largest legal one is a kernel file or a trial's samples.
constexpr int kMaxRowBytes = 64 << 20;

constexpr char kMustBeWritable[] =
    "; the folder and the files in it must be writable by the user that runs this";

bool IsNoSpace(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

absl::Status ConstraintStatus(int code, const std::string& text) {
  switch (code) {
    case SQLITE_CONSTRAINT_FOREIGNKEY:
      return absl::NotFoundError(absl::StrCat(text, "; it refers to a row that is not stored"));
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
      return absl::AlreadyExistsError(text);
    case SQLITE_CONSTRAINT_TRIGGER:
      return absl::FailedPreconditionError(text);
    default:
      return absl::InvalidArgumentError(text);
  }
}

absl::Status FileStatus(int error, const std::string& text) {
  std::string with_error = error == 0 ? text : absl::StrCat(text, ": ", std::strerror(error));
  if (IsNoSpace(error)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(with_error, "; free some space, reads go on meanwhile"));
  }
  if (error == ENOENT) return absl::NotFoundError(with_error);
  if (error == EACCES || error == EPERM) {
    return absl::PermissionDeniedError(absl::StrCat(with_error, kMustBeWritable));
  }
  if (error == EROFS) {
    return absl::PermissionDeniedError(
        absl::StrCat(with_error, "; mount it writable, reads go on meanwhile"));
  }
  if (error == EIO) {
    return absl::UnavailableError(
        absl::StrCat(with_error, "; the disk fails: see the kernel's log, and keep a backup"));
  }
  return absl::UnavailableError(with_error);
}

// A file that is open is there: such a number is an older call's.
absl::Status IoStatus(int error, const std::string& text) {
  return FileStatus(error == 0 || error == ENOENT ? EIO : error, text);
}

// The operating system's last error. SQLite keeps it by file: the log's first, as commits write
// there.
int LastFileError(sqlite3* handle) {
  if (handle == nullptr) return 0;
  int error = 0;
  sqlite3_file* log = nullptr;
  if (sqlite3_file_control(handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) == SQLITE_OK &&
      log != nullptr && log->pMethods != nullptr) {
    log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &error);
  }
  if (error == 0) sqlite3_file_control(handle, "main", SQLITE_FCNTL_LAST_ERRNO, &error);
  return error != 0 ? error : sqlite3_system_errno(handle);
}

}  // namespace

absl::Status SqliteStatus(int code, sqlite3* handle, absl::string_view attempted) {
  const int primary = code & 0xff;
  if (primary == SQLITE_OK || primary == SQLITE_ROW || primary == SQLITE_DONE) {
    return absl::OkStatus();
  }
  const char* message = handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  std::string text = absl::StrCat(attempted, ": ", message, " (SQLite code ", code, ")");
  switch (primary) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return absl::UnavailableError(text);
    case SQLITE_FULL:
      return FileStatus(ENOSPC, text);
    case SQLITE_NOMEM:
      return absl::ResourceExhaustedError(text);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(
          absl::StrCat(text, "; move the file aside, or put a backup in its place"));
    case SQLITE_IOERR:
      if (code == SQLITE_IOERR_CORRUPTFS) return absl::DataLossError(text);
      return IoStatus(LastFileError(handle), text);
    case SQLITE_CANTOPEN:
      return FileStatus(handle != nullptr ? sqlite3_system_errno(handle) : 0, text);
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return absl::PermissionDeniedError(absl::StrCat(text, kMustBeWritable));
    case SQLITE_TOOBIG:
      return absl::InvalidArgumentError(text);
    case SQLITE_CONSTRAINT:
      return ConstraintStatus(code, text);
    default:
      return absl::InternalError(text);
  }
}

Statement::~Statement() {
  if (prepared_ == nullptr) return;
  sqlite3_reset(prepared_);  // repeats the error of the last step, which has been returned
  sqlite3_clear_bindings(prepared_);
}

void Statement::KeepError(int code) {
  if (code == SQLITE_OK || !error_.ok()) return;
  error_ = SqliteStatus(code, sqlite3_db_handle(prepared_), sqlite3_sql(prepared_));
}

void Statement::BindReal(double value) {
  if (error_.ok()) KeepError(sqlite3_bind_double(prepared_, next_parameter_++, value));
}

void Statement::BindInteger(int64_t value) {
  if (error_.ok()) KeepError(sqlite3_bind_int64(prepared_, next_parameter_++, value));
}

void Statement::BindOptional(OptionalId id) {
  if (id.value != 0) return BindInteger(id.value);
  if (error_.ok()) KeepError(sqlite3_bind_null(prepared_, next_parameter_++));
}

void Statement::BindBytes(absl::string_view bytes, Bytes type) {
  if (!error_.ok()) return;
  // An empty view may have a null pointer, which SQLite would take for NULL.
  const char* data = bytes.empty() ? "" : bytes.data();
  const int index = next_parameter_++;
  KeepError(type == Bytes::kBlob
                ? sqlite3_bind_blob64(prepared_, index, data, bytes.size(), SQLITE_TRANSIENT)
                : sqlite3_bind_text64(prepared_, index, data, bytes.size(), SQLITE_TRANSIENT,
                                      SQLITE_UTF8));
}

absl::StatusOr<bool> Statement::Step() {
  RETURN_IF_ERROR(error_);
  const int code = sqlite3_step(prepared_);
  next_column_ = 0;
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  KeepError(code);
  return error_;
}

absl::Status Statement::Run() {
  while (true) {
    ASSIGN_OR_RETURN(bool row, Step());
    if (!row) return absl::OkStatus();
  }
}

double Statement::ReadReal() {
  const int column = next_column_++;
  if (sqlite3_column_type(prepared_, column) == SQLITE_NULL) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return sqlite3_column_double(prepared_, column);
}

int64_t Statement::ReadInteger() { return sqlite3_column_int64(prepared_, next_column_++); }

absl::string_view Statement::ReadView() {
  const int column = next_column_++;
  const void* data = sqlite3_column_blob(prepared_, column);
  const int size = sqlite3_column_bytes(prepared_, column);
  return {static_cast<const char*>(data), static_cast<size_t>(size)};
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const std::string& path, Mode mode) {
  // No mutex inside SQLite: a connection is used by one thread at a time.
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  flags |=
      mode == Mode::kReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  std::unique_ptr<Connection> connection(new Connection(handle));
  if (code != SQLITE_OK) return SqliteStatus(code, handle, absl::StrCat("cannot open ", path));
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, kMaxRowBytes);
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  // Two connections that commit and checkpoint at once can corrupt the log in SQLite 3.7.0 to
  // 3.51.2. Checkpoints are therefore only ever made by the writer, by explicit call.
  sqlite3_wal_autocheckpoint(handle, 0);
  if (mode == Mode::kReadOnly) {
    sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  }
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  // A statement that cannot run fails here rather than after a double-quoted typo became a string.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DQS_DDL, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_FKEY, 1, nullptr);
  return connection;
}

Connection::~Connection() {
  for (auto& [sql, prepared] : prepared_) sqlite3_finalize(prepared);
  sqlite3_close(handle_);
}

Statement Connection::Prepare(absl::string_view sql) {
  if (auto found = prepared_.find(sql); found != prepared_.end()) {
    return Statement(found->second, absl::OkStatus());
  }
  sqlite3_stmt* prepared = nullptr;
  const int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &prepared, nullptr);
  if (code != SQLITE_OK) return Statement(nullptr, SqliteStatus(code, handle_, sql));
  prepared_.emplace(sql, prepared);
  return Statement(prepared, absl::OkStatus());
}

absl::Status Connection::Execute(const char* sql) {
  const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  // The first line says enough: a script may be a whole schema.
  const absl::string_view text(sql);
  return SqliteStatus(code, handle_, text.substr(0, text.find('\n')));
}

absl::StatusOr<int64_t> Connection::QueryInteger(const char* sql) {
  Statement query = Prepare(sql);
  RETURN_IF_ERROR(query.Step().status());
  int64_t value = 0;
  query.Read(value);
  return value;
}

absl::StatusOr<std::string> Connection::QueryText(const char* sql) {
  Statement query = Prepare(sql);
  RETURN_IF_ERROR(query.Step().status());
  std::string value;
  query.Read(value);
  return value;
}

}  // namespace tune::db
