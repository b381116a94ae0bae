// SPDX-License-Identifier: Apache-2.0
#include "db/postgres_store.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "db/migrations.h"
#include "db/postgres_dialect.h"

namespace tune::db {
namespace {

// Held while the schema is made or changed, so that daemons that start together do it once.
constexpr char kLockSchema[] = "SELECT pg_advisory_xact_lock(1953853029)";  // "tune"

absl::Status MakeSchema(PostgresConnection& connection) {
  ASSIGN_OR_RETURN(const std::string schema, PostgresSchema());

  return connection.ExecuteAsIs(absl::StrCat(
      "CREATE SCHEMA IF NOT EXISTS tunectl;\nSET LOCAL search_path TO tunectl, public;\n", schema,
      "\nCREATE TABLE schema_version (version BIGINT NOT NULL);\nINSERT INTO schema_version VALUES "
      "(",
      NewestVersion(), ");\n"));
}

// The steps of the schema that the database lacks, from the version on at which it was made.
absl::Status Upgrade(Connection& connection, int64_t version) {
  const absl::Span<const absl::string_view> steps = SchemaSteps();
  for (int64_t to = version + 1; to <= NewestVersion(); ++to) {
    RETURN_IF_ERROR(
        connection.Execute(std::string(steps[static_cast<size_t>(to - kOldestVersion)])));
  }
  return connection.Execute(absl::StrCat("UPDATE schema_version SET version = ", NewestVersion()));
}

absl::Status PrepareSchema(PostgresConnection& connection, const std::string& url) {
  RETURN_IF_ERROR(connection.BeginWriting());
  RETURN_IF_ERROR(connection.Execute(kLockSchema));
  ASSIGN_OR_RETURN(const int64_t exists,
                   connection.QueryInteger("SELECT count(*) FROM pg_tables WHERE schemaname = "
                                           "'tunectl' AND tablename = 'schema_version'"));
  if (exists == 0) {
    RETURN_IF_ERROR(MakeSchema(connection));
  } else {
    ASSIGN_OR_RETURN(const int64_t version, connection.SchemaVersion());
    if (version > NewestVersion()) {
      return absl::FailedPreconditionError(absl::StrCat(WithoutSecrets(url), " has schema version ",
                                                        version, ", this program knows ",
                                                        NewestVersion(), "; use a newer program"));
    }
    if (version < NewestVersion()) RETURN_IF_ERROR(Upgrade(connection, version));
  }
  return connection.Prepare("COMMIT").Run();
}

}  // namespace

absl::Status Store::CheckUrl(const std::string& url) {
  if (!IsPostgresUrl(url)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the store '", url, "' is no address of PostgreSQL: postgresql://USER@HOST:5432/DATABASE"));
  }
  ASSIGN_OR_RETURN(const Libpq* const pq, LoadLibpq());
  char* error = nullptr;
  PQconninfoOption* const options = pq->PQconninfoParse(url.c_str(), &error);
  const std::string why = error == nullptr ? "" : error;
  pq->PQfreemem(error);
  pq->PQconninfoFree(options);
  if (options != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the store ", WithoutSecrets(url), ": ", absl::StripAsciiWhitespace(why)));
}

absl::StatusOr<std::unique_ptr<Store>> PostgresStore::Open(const std::string& url,
                                                           const StoreOptions& options) {
  std::unique_ptr<FileLock> lock;
  if (!options.lock.empty()) {
    ASSIGN_OR_RETURN(lock, FileLock::Take(options.lock));
  }
  const auto lease = std::make_shared<std::atomic<int64_t>>(0);
  const PostgresOptions postgres{.url = url, .lease = lease};
  ASSIGN_OR_RETURN(std::unique_ptr<PostgresConnection> writer, PostgresConnection::Open(postgres));
  RETURN_IF_ERROR(PrepareSchema(*writer, url));
  return std::make_unique<PostgresStore>(std::move(lock), std::move(writer), postgres, lease,
                                         options);
}

PostgresStore::PostgresStore(std::unique_ptr<FileLock> lock, std::unique_ptr<Connection> writer,
                             const PostgresOptions& postgres,
                             std::shared_ptr<std::atomic<int64_t>> lease,
                             const StoreOptions& options)
    : SqlStore(
          std::move(writer), [postgres] { return PostgresConnection::Open(postgres); }, options),
      lock_(std::move(lock)),
      postgres_(postgres),
      lease_(std::move(lease)) {}

absl::Status PostgresStore::BackUp(const std::string&) {
  return absl::FailedPreconditionError(
      absl::StrCat("the store is in PostgreSQL: back it up with `pg_dump --schema=tunectl ",
                   WithoutSecrets(postgres_.url), "`"));
}

}  // namespace tune::db
