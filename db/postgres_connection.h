// SPDX-License-Identifier: Apache-2.0
// The adapter over libpq: connections, prepared statements, SQLSTATEs as Status.
//
// A connection that is lost connects again by itself when it is used outside a transaction, so a
// restart of the server costs the calls that were under way and no others. No call waits for the
// server longer than kAnswerMax.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "db/libpq.h"
#include "db/statement.h"

namespace tune::db {

inline constexpr absl::Duration kAnswerMax = absl::Seconds(20);

struct PostgresOptions {
  std::string url;
  // The lease under which transactions write (db/fleet_store.h); 0: none.
  std::shared_ptr<const std::atomic<int64_t>> lease = std::make_shared<std::atomic<int64_t>>(0);
};

class PostgresConnection final : public Connection {
 public:
  static absl::StatusOr<std::unique_ptr<PostgresConnection>> Open(const PostgresOptions& options);
  ~PostgresConnection() override;

  absl::Status Execute(const std::string& script) override;
  // Runs a script of PostgreSQL's own words.
  absl::Status ExecuteAsIs(const std::string& script);
  int64_t changed_rows() const override { return changed_rows_; }
  bool in_transaction() const override;
  absl::Status BeginWriting() override;
  absl::Status AppendAlone(absl::string_view table) override;
  absl::StatusOr<int64_t> SchemaVersion() override;
  std::string EngineVersion() const override;
  After AfterFailure() override;
  bool Maintain(bool) override { return false; }

 private:
  friend class PostgresPrepared;
  struct Clear {
    const Libpq* pq;
    void operator()(PGresult* result) const { pq->PQclear(result); }
  };
  using Result = std::unique_ptr<PGresult, Clear>;

  PostgresConnection(const Libpq& pq, const PostgresOptions& options)
      : pq_(pq), options_(options) {}
  absl::StatusOr<std::unique_ptr<Prepared>> MakePrepared(absl::string_view sql) override;
  absl::Status Connect();
  bool is_lost() const { return handle_ == nullptr || pq_.PQstatus(handle_) != CONNECTION_OK; }
  // Connects again if the connection is lost and no transaction went with it.
  absl::Status Recover();
  // Sends by `send`, which returns 1, and waits for the result.
  absl::StatusOr<Result> Ask(absl::string_view attempted, absl::FunctionRef<int()> send);
  absl::Status AwaitAnswer();
  // Closes the connection and says why.
  absl::Status Lose(absl::string_view why);
  absl::Status StatusOf(const PGresult* result, absl::string_view attempted);
  // The first value of a script's last result.
  absl::StatusOr<std::string> AskText(const std::string& script);

  const Libpq& pq_;
  const PostgresOptions options_;
  PGconn* handle_ = nullptr;
  uint64_t connected_ = 0;  // counts connections: statements are prepared for each
  uint64_t statements_ = 0;
  int64_t changed_rows_ = 0;
  std::string server_started_;
  // The transaction that writes:
  std::string transaction_id_;
  std::string transaction_server_;  // server_started_ when it began
  bool writing_ = false;
  bool committing_ = false;
  bool again_ = false;  // it lost a deadlock, or its connection
};

}  // namespace tune::db
