// SPDX-License-Identifier: Apache-2.0
// The store in a PostgreSQL database, which several daemons share (db/fleet_store.h).
#pragma once

#include <memory>
#include <string>

#include "db/postgres_connection.h"
#include "db/sql_store.h"

namespace tune::db {

// Thread-safe.
class PostgresStore final : public SqlStore {
 public:
  // Connects, and makes or updates the schema. FAILED_PRECONDITION: no libpq, or the schema is a
  // newer program's; PERMISSION_DENIED; UNAVAILABLE: the server cannot be reached.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& url,
                                                     const StoreOptions& options);

  PostgresStore(std::unique_ptr<Connection> writer, const PostgresOptions& postgres,
                const StoreOptions& options);

  // The server checks its own files.
  absl::Status CheckFile(const Cancelled&) override { return absl::OkStatus(); }
  absl::Status CheckAll(const Cancelled&) override { return absl::OkStatus(); }
  absl::Status BackUp(const std::string& path) override;

 private:
  const PostgresOptions postgres_;
};

}  // namespace tune::db
