// SPDX-License-Identifier: Apache-2.0
#include "db/sqlite_connection.h"

#include <cerrno>
#include <cstring>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::db {
namespace {

// Larger rows are refused: the largest legal one is a kernel file or a trial's samples.
constexpr int kMaxRowBytes = 64 << 20;
// SQLite's own default for automatic checkpoints.
constexpr int kCheckpointPages = 1000;

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

namespace {

class SqlitePrepared final : public Prepared {
 public:
  explicit SqlitePrepared(sqlite3_stmt* statement) : statement_(statement) {}
  ~SqlitePrepared() override { sqlite3_finalize(statement_); }

  absl::Status Bind(int index, const Parameter& value) override {
    const int code = std::visit([&](const auto& one) { return BindOne(index + 1, one); }, value);
    return SqliteStatus(code, sqlite3_db_handle(statement_), sqlite3_sql(statement_));
  }
  absl::StatusOr<bool> Step() override {
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    return SqliteStatus(code, sqlite3_db_handle(statement_), sqlite3_sql(statement_));
  }
  void Reset() override {
    sqlite3_reset(statement_);  // repeats the error of the last step, which has been returned
    sqlite3_clear_bindings(statement_);
  }
  bool IsNull(int column) override {
    return sqlite3_column_type(statement_, column) == SQLITE_NULL;
  }
  int64_t Integer(int column) override { return sqlite3_column_int64(statement_, column); }
  double Real(int column) override { return sqlite3_column_double(statement_, column); }
  absl::string_view Bytes(int column) override {
    const void* data = sqlite3_column_blob(statement_, column);
    const int size = sqlite3_column_bytes(statement_, column);
    return {static_cast<const char*>(data), static_cast<size_t>(size)};
  }

 private:
  int BindOne(int index, int64_t value) { return sqlite3_bind_int64(statement_, index, value); }
  int BindOne(int index, double value) { return sqlite3_bind_double(statement_, index, value); }
  int BindOne(int index, NullInteger) { return sqlite3_bind_null(statement_, index); }
  int BindOne(int index, NullReal) { return sqlite3_bind_null(statement_, index); }
  // An empty view may have a null pointer, which SQLite would take for NULL.
  int BindOne(int index, absl::string_view text) {
    return sqlite3_bind_text64(statement_, index, text.empty() ? "" : text.data(), text.size(),
                               SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  int BindOne(int index, Blob blob) {
    return sqlite3_bind_blob64(statement_, index, blob.bytes.empty() ? "" : blob.bytes.data(),
                               blob.bytes.size(), SQLITE_TRANSIENT);
  }

  sqlite3_stmt* const statement_;
};

// Called by SQLite on the writer thread after each commit.
int KeepLogPages(void* log_pages, sqlite3*, const char*, int pages) {
  *static_cast<int*>(log_pages) = pages;
  return SQLITE_OK;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteConnection>> SqliteConnection::Open(const std::string& path,
                                                                         Mode mode) {
  // No mutex inside SQLite: a connection is used by one thread at a time.
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  flags |=
      mode == Mode::kReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  std::unique_ptr<SqliteConnection> connection(new SqliteConnection(handle));
  if (code != SQLITE_OK) return SqliteStatus(code, handle, absl::StrCat("cannot open ", path));
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, kMaxRowBytes);
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  // Two connections that commit and checkpoint at once can corrupt the log in SQLite 3.7.0 to
  // 3.51.2. Checkpoints are therefore only ever made by the writer, by explicit call.
  sqlite3_wal_autocheckpoint(handle, 0);
  sqlite3_wal_hook(handle, KeepLogPages, &connection->log_pages_);
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

SqliteConnection::~SqliteConnection() {
  ForgetPrepared();
  sqlite3_close(handle_);
}

absl::StatusOr<std::unique_ptr<Prepared>> SqliteConnection::MakePrepared(absl::string_view sql) {
  sqlite3_stmt* prepared = nullptr;
  const int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &prepared, nullptr);
  if (code != SQLITE_OK) return SqliteStatus(code, handle_, sql);
  return std::make_unique<SqlitePrepared>(prepared);
}

absl::Status SqliteConnection::Execute(const std::string& script) {
  const int code = sqlite3_exec(handle_, script.c_str(), nullptr, nullptr, nullptr);
  // The first line says enough: a script may be a whole schema.
  return SqliteStatus(code, handle_, absl::string_view(script).substr(0, script.find('\n')));
}

std::string SqliteConnection::EngineVersion() const {
  return absl::StrCat("SQLite ", sqlite3_libversion());
}

bool SqliteConnection::Maintain(bool idle) {
  if (!idle && log_pages_ >= kCheckpointPages) {
    // Passive: never waits for a reader. The next checkpoint copies the rest.
    sqlite3_wal_checkpoint_v2(handle_, nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  }
  if (!idle || log_pages_ == 0) return log_pages_ > 0;
  // No waiting for readers: a write may come at any moment. If one is in the way, next time.
  sqlite3_busy_handler(handle_, nullptr, nullptr);
  const int code =
      sqlite3_wal_checkpoint_v2(handle_, nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  sqlite3_busy_timeout(handle_, kBusyTimeoutMs);
  if (code == SQLITE_OK) log_pages_ = 0;
  return log_pages_ > 0;
}

}  // namespace tune::db
