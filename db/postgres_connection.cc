// SPDX-License-Identifier: Apache-2.0
#include "db/postgres_connection.h"

#include <poll.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "db/postgres_dialect.h"

namespace tune::db {
namespace {

// Types by their numbers in pg_type, which never change.
constexpr Oid kBool = 16, kBytea = 17, kInt8 = 20, kInt2 = 21, kInt4 = 23, kText = 25,
              kFloat4 = 700, kFloat8 = 701;

// The server ends what waits longer: a lock, a statement, a transaction whose daemon is stopped.
constexpr char kSession[] =
    "SET search_path TO tunectl, public; SET statement_timeout TO '15s'; "
    "SET lock_timeout TO '10s'; SET idle_in_transaction_session_timeout TO '30s'; "
    "SET client_min_messages TO error; SET bytea_output TO hex; "
    "SELECT pg_postmaster_start_time()::text";

template <typename T>
T FromBigEndian(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  if constexpr (std::endian::native == std::endian::little) {
    char* const begin = reinterpret_cast<char*>(&value);
    std::reverse(begin, begin + sizeof(value));
  }
  return value;
}

template <typename T>
std::string ToBigEndian(T value) {
  std::string bytes(reinterpret_cast<const char*>(&value), sizeof(value));
  if constexpr (std::endian::native == std::endian::little) {
    std::reverse(bytes.begin(), bytes.end());
  }
  return bytes;
}

bool IsCommand(absl::string_view sql) {
  for (const char* word : {"COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE"}) {
    if (absl::StartsWith(sql, word)) return true;
  }
  return false;
}

absl::Status ConstraintStatus(absl::string_view state, const std::string& text) {
  if (state == "23503") {
    return absl::NotFoundError(absl::StrCat(text, "; it refers to a row that is not stored"));
  }
  if (state == "23505") return absl::AlreadyExistsError(text);
  return absl::InvalidArgumentError(text);
}

// By the class of the SQLSTATE, its first two characters.
absl::Status StateStatus(absl::string_view state, const std::string& text) {
  const absl::string_view kind = state.substr(0, 2);
  if (state == kLeaseLostState) return absl::AbortedError(text);
  if (kind == "23") return ConstraintStatus(state, text);
  if (kind == "22") return absl::InvalidArgumentError(text);
  if (state == "P0001" || state == "25006") return absl::FailedPreconditionError(text);
  if (state == "53100" || state == "53200") {
    return absl::ResourceExhaustedError(
        absl::StrCat(text, "; free some space on the database's host, reads go on meanwhile"));
  }
  if (kind == "08" || kind == "53" || kind == "57" || kind == "40" || kind == "55") {
    return absl::UnavailableError(text);
  }
  if (kind == "28" || state == "42501") {
    return absl::PermissionDeniedError(
        absl::StrCat(text, "; see docs/operations.md for what the role must be granted"));
  }
  if (state == "XX001" || state == "XX002") return absl::DataLossError(text);
  return absl::InternalError(text);
}

}  // namespace

class PostgresPrepared final : public Prepared {
 public:
  PostgresPrepared(PostgresConnection& connection, absl::string_view sql)
      : connection_(connection),
        sql_(ToPostgres(sql)),
        is_command_(IsCommand(sql_)),
        result_(nullptr, {&connection.pq_}) {}

  absl::Status Bind(int index, const Parameter& value) override {
    if (parameters_.size() <= static_cast<size_t>(index)) parameters_.resize(index + 1);
    One& one = parameters_[static_cast<size_t>(index)];
    one = std::visit([](const auto& known) { return Encoded(known); }, value);
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Step() override {
    if (result_ == nullptr) {
      ASSIGN_OR_RETURN(result_, Run());
      rows_ = connection_.pq_.PQntuples(result_.get());
      row_ = -1;
    }
    if (++row_ < rows_) return true;
    result_.reset();  // the next step would run it again, as SQLite does
    rows_ = 0;
    return false;
  }

  void Reset() override {
    result_.reset();
    rows_ = 0;
    parameters_.clear();
  }

  bool IsNull(int column) override {
    return result_ == nullptr || connection_.pq_.PQgetisnull(result_.get(), row_, column) != 0;
  }
  int64_t Integer(int column) override {
    const absl::string_view bytes = Bytes(column);
    if (bytes.empty()) return 0;
    int64_t value = 0;
    switch (connection_.pq_.PQftype(result_.get(), column)) {
      case kBool:
        return bytes[0];
      case kInt2:
        return FromBigEndian<int16_t>(bytes.data());
      case kInt4:
        return FromBigEndian<int32_t>(bytes.data());
      case kInt8:
        return FromBigEndian<int64_t>(bytes.data());
      case kFloat8:
        return static_cast<int64_t>(FromBigEndian<double>(bytes.data()));
      default:
        return absl::SimpleAtoi(bytes, &value) ? value : 0;
    }
  }
  double Real(int column) override {
    const absl::string_view bytes = Bytes(column);
    if (bytes.empty()) return 0;
    switch (connection_.pq_.PQftype(result_.get(), column)) {
      case kFloat4:
        return FromBigEndian<float>(bytes.data());
      case kFloat8:
        return FromBigEndian<double>(bytes.data());
      default:
        return static_cast<double>(Integer(column));
    }
  }
  absl::string_view Bytes(int column) override {
    if (IsNull(column)) return {};
    return {connection_.pq_.PQgetvalue(result_.get(), row_, column),
            static_cast<size_t>(connection_.pq_.PQgetlength(result_.get(), row_, column))};
  }

 private:
  struct One {
    Oid type = kText;
    bool is_null = true;
    std::string bytes;
  };
  static One Encoded(int64_t value) { return {kInt8, false, ToBigEndian(value)}; }
  static One Encoded(double value) { return {kFloat8, false, ToBigEndian(value)}; }
  static One Encoded(absl::string_view text) { return {kText, false, std::string(text)}; }
  static One Encoded(Blob blob) { return {kBytea, false, std::string(blob.bytes)}; }
  static One Encoded(NullInteger) { return {kInt8, true, ""}; }
  static One Encoded(NullReal) { return {kFloat8, true, ""}; }

  absl::StatusOr<PostgresConnection::Result> Run() {
    RETURN_IF_ERROR(connection_.Recover());
    absl::StatusOr<PostgresConnection::Result> result = Try();
    // A connection that broke while nothing used it shows that here.
    if (connection_.is_lost() && !connection_.writing_ && connection_.Recover().ok()) {
      result = Try();
    }
    return result;
  }

  absl::StatusOr<PostgresConnection::Result> Try() {
    const Libpq& pq = connection_.pq_;
    PGconn* const handle = connection_.handle_;
    if (is_command_) {
      return connection_.Ask(sql_, [&] { return pq.PQsendQuery(handle, sql_.c_str()); });
    }
    std::vector<Oid> types;
    std::vector<const char*> values;
    std::vector<int> lengths;
    for (const One& one : parameters_) {
      types.push_back(one.type);
      values.push_back(one.is_null ? nullptr : one.bytes.data());
      lengths.push_back(static_cast<int>(one.bytes.size()));
    }
    const int count = static_cast<int>(types.size());
    if (prepared_for_ != connection_.connected_) {
      name_ = absl::StrCat("s", ++connection_.statements_);
      RETURN_IF_ERROR(connection_
                          .Ask(sql_,
                               [&] {
                                 return pq.PQsendPrepare(handle, name_.c_str(), sql_.c_str(), count,
                                                         types.data());
                               })
                          .status());
      prepared_for_ = connection_.connected_;
    }
    const std::vector<int> binary(types.size(), 1);
    return connection_.Ask(sql_, [&] {
      return pq.PQsendQueryPrepared(handle, name_.c_str(), count, values.data(), lengths.data(),
                                    binary.data(), /*resultFormat=*/1);
    });
  }

  PostgresConnection& connection_;
  const std::string sql_;
  const bool is_command_;
  std::vector<One> parameters_;
  std::string name_;
  uint64_t prepared_for_ = 0;  // the connection that knows it by name_
  PostgresConnection::Result result_;
  int rows_ = 0;
  int row_ = -1;
};

absl::StatusOr<std::unique_ptr<PostgresConnection>> PostgresConnection::Open(
    const PostgresOptions& options) {
  ASSIGN_OR_RETURN(const Libpq* const pq, LoadLibpq());
  std::unique_ptr<PostgresConnection> connection(new PostgresConnection(*pq, options));
  RETURN_IF_ERROR(connection->Connect());
  return connection;
}

PostgresConnection::~PostgresConnection() {
  ForgetPrepared();
  if (handle_ != nullptr) pq_.PQfinish(handle_);
}

absl::StatusOr<std::unique_ptr<Prepared>> PostgresConnection::MakePrepared(absl::string_view sql) {
  return std::make_unique<PostgresPrepared>(*this, sql);
}

absl::Status PostgresConnection::Connect() {
  if (handle_ != nullptr) pq_.PQfinish(handle_);
  handle_ = pq_.PQconnectdb(WithDefaults(options_.url).c_str());
  ++connected_;
  if (is_lost()) {
    return Lose(handle_ == nullptr ? "no memory" : pq_.PQerrorMessage(handle_));
  }
  pq_.PQsetNoticeProcessor(
      handle_, [](void*, const char*) {}, nullptr);
  pq_.PQsetnonblocking(handle_, 1);
  ASSIGN_OR_RETURN(server_started_, AskText(kSession));
  return absl::OkStatus();
}

absl::Status PostgresConnection::Recover() {
  if (!is_lost()) return absl::OkStatus();
  if (writing_) {
    return absl::UnavailableError("the connection to PostgreSQL was lost within a transaction");
  }
  return Connect();
}

absl::Status PostgresConnection::Lose(absl::string_view why) {
  const std::string text = absl::StrCat(
      "PostgreSQL at ", WithoutSecrets(options_.url), ": ", absl::StripAsciiWhitespace(why),
      "; see whether it runs and can be reached. Look-ups go on; nothing is stored "
      "until it is back");
  if (handle_ != nullptr) pq_.PQfinish(std::exchange(handle_, nullptr));
  again_ = true;
  // A role or a database that the server does not accept is no outage.
  const bool refused = absl::StrContains(why, "authentication failed") ||
                       absl::StrContains(why, "does not exist") ||
                       absl::StrContains(why, "no pg_hba.conf entry") ||
                       absl::StrContains(why, "no password supplied");
  return refused ? absl::PermissionDeniedError(text) : absl::UnavailableError(text);
}

absl::StatusOr<PostgresConnection::Result> PostgresConnection::Ask(absl::string_view attempted,
                                                                   absl::FunctionRef<int()> send) {
  if (is_lost()) return Lose("the connection was lost");
  if (attempted == "COMMIT") committing_ = true;
  if (send() != 1) return Lose(pq_.PQerrorMessage(handle_));
  Result last(nullptr, {&pq_});
  absl::Status status;
  while (true) {
    RETURN_IF_ERROR(AwaitAnswer());
    Result result(pq_.PQgetResult(handle_), {&pq_});
    if (result == nullptr) break;
    if (status.ok()) status = StatusOf(result.get(), attempted);
    last = std::move(result);
  }
  if (is_lost()) return Lose(status.ok() ? "the connection was lost" : status.message());
  if (!status.ok() && again_ && in_transaction()) {  // it lost a deadlock
    Ask("after a deadlock", [this] { return pq_.PQsendQuery(handle_, "ROLLBACK"); })
        .status()
        .IgnoreError();
  }
  RETURN_IF_ERROR(status);
  if (attempted == "COMMIT" || attempted == "ROLLBACK") writing_ = committing_ = false;
  int64_t changed = 0;
  if (absl::SimpleAtoi(pq_.PQcmdTuples(last.get()), &changed)) changed_rows_ = changed;
  return last;
}

absl::Status PostgresConnection::AwaitAnswer() {
  const absl::Time deadline = SteadyNow() + kAnswerMax;
  while (true) {
    const int unsent = pq_.PQflush(handle_);
    if (unsent < 0) return Lose(pq_.PQerrorMessage(handle_));
    if (unsent == 0 && pq_.PQisBusy(handle_) == 0) return absl::OkStatus();
    const absl::Duration left = deadline - SteadyNow();
    pollfd ready = {.fd = pq_.PQsocket(handle_),
                    .events = static_cast<short>(POLLIN | (unsent != 0 ? POLLOUT : 0))};
    const int found = left <= absl::ZeroDuration()
                          ? 0
                          : poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    if (found == 0) {
      return Lose(absl::StrCat("it has not answered within ", absl::FormatDuration(kAnswerMax)));
    }
    if (found < 0 && errno != EINTR) return Lose(std::strerror(errno));
    if (found > 0 && pq_.PQconsumeInput(handle_) == 0) return Lose(pq_.PQerrorMessage(handle_));
  }
}

absl::Status PostgresConnection::StatusOf(const PGresult* result, absl::string_view attempted) {
  const ExecStatusType type = pq_.PQresultStatus(result);
  if (type == PGRES_COMMAND_OK || type == PGRES_TUPLES_OK || type == PGRES_EMPTY_QUERY) {
    return absl::OkStatus();
  }
  const auto field = [&](int code) -> std::string {
    const char* const text = pq_.PQresultErrorField(result, code);
    return text == nullptr ? "" : text;
  };
  const std::string state = field(PG_DIAG_SQLSTATE);
  if (state == "40P01" || state == "40001") again_ = true;
  // The first line says enough: a script may be a whole schema.
  const absl::string_view line = attempted.substr(0, attempted.find('\n'));
  if (state == kLeaseLostState) return StateStatus(state, field(PG_DIAG_MESSAGE_PRIMARY));
  return StateStatus(
      state, absl::StrCat(line, ": ", field(PG_DIAG_MESSAGE_PRIMARY), " (SQLSTATE ", state, ")"));
}

absl::Status PostgresConnection::Execute(const std::string& script) {
  return ExecuteAsIs(ToPostgres(script));
}

absl::Status PostgresConnection::ExecuteAsIs(const std::string& script) {
  RETURN_IF_ERROR(Recover());
  return Ask(script, [&] { return pq_.PQsendQuery(handle_, script.c_str()); }).status();
}

absl::StatusOr<std::string> PostgresConnection::AskText(const std::string& script) {
  ASSIGN_OR_RETURN(const Result result,
                   Ask(script, [&] { return pq_.PQsendQuery(handle_, script.c_str()); }));
  if (pq_.PQntuples(result.get()) == 0) return "";
  return std::string(pq_.PQgetvalue(result.get(), 0, 0));
}

bool PostgresConnection::in_transaction() const {
  if (handle_ == nullptr) return false;
  const PGTransactionStatusType status = pq_.PQtransactionStatus(handle_);
  return status == PQTRANS_INTRANS || status == PQTRANS_INERROR;
}

absl::Status PostgresConnection::BeginWriting() {
  writing_ = committing_ = again_ = false;
  RETURN_IF_ERROR(Recover());
  const std::string begin =
      absl::StrCat("BEGIN; SELECT set_config('tunectl.lease', '", options_.lease->load(),
                   "', true); SELECT pg_current_xact_id()::text");
  absl::StatusOr<std::string> id = AskText(begin);
  if (!id.ok() && is_lost() && Recover().ok()) id = AskText(begin);  // it broke while it was idle
  RETURN_IF_ERROR(id.status());
  transaction_id_ = *std::move(id);
  transaction_server_ = server_started_;
  writing_ = true;
  again_ = false;
  return absl::OkStatus();
}

Connection::After PostgresConnection::AfterFailure() {
  const bool was_committing = committing_;
  const bool had_begun = writing_;
  writing_ = committing_ = false;
  if (!again_ || !had_begun || !Recover().ok()) return After::kNothing;
  if (!was_committing) return After::kAgain;
  // After a crash of the server the number may be another transaction's.
  if (server_started_ != transaction_server_) return After::kNothing;
  const absl::StatusOr<std::string> became =
      AskText(absl::StrCat("SELECT pg_xact_status('", transaction_id_, "'::xid8)"));
  if (!became.ok()) return After::kNothing;
  if (*became == "committed") return After::kCommitted;
  return *became == "aborted" ? After::kAgain : After::kNothing;
}

absl::Status PostgresConnection::AppendAlone(absl::string_view table) {
  return Execute(absl::StrCat("LOCK TABLE ", table, " IN SHARE ROW EXCLUSIVE MODE"));
}

absl::StatusOr<int64_t> PostgresConnection::SchemaVersion() {
  return QueryInteger("SELECT version FROM schema_version");
}

std::string PostgresConnection::EngineVersion() const {
  const char* const version =
      handle_ == nullptr ? nullptr : pq_.PQparameterStatus(handle_, "server_version");
  return absl::StrCat("PostgreSQL ", version == nullptr ? "(not reached)" : version);
}

}  // namespace tune::db
