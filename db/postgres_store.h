// SPDX-License-Identifier: Apache-2.0
// The store in a PostgreSQL database, which several daemons share (db/fleet_store.h).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "db/checks.h"
#include "db/fleet_store.h"
#include "db/postgres_connection.h"
#include "db/sql_store.h"

namespace tune::db {

// Thread-safe.
class PostgresStore final : public SqlStore, public FleetStore {
 public:
  // Connects, and makes or updates the schema. FAILED_PRECONDITION: no libpq, or the schema is a
  // newer program's; PERMISSION_DENIED; UNAVAILABLE: the server cannot be reached.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& url,
                                                     const StoreOptions& options);

  PostgresStore(std::unique_ptr<FileLock> lock, std::unique_ptr<Connection> writer,
                const PostgresOptions& postgres, std::shared_ptr<std::atomic<int64_t>> lease,
                const StoreOptions& options);

  FleetStore* fleet() override { return this; }
  absl::StatusOr<int64_t> Join(const HostRow& host) override;
  absl::Status Beat(const std::string& devices) override;
  absl::StatusOr<std::map<int64_t, int64_t>> Beats() override;
  absl::Status EndLease(int64_t lease, int64_t beats) override;
  absl::Status Leave() override;
  absl::StatusOr<std::vector<JobRow>> Claim(const std::string& device_name,
                                            const std::vector<std::string>& device_ids,
                                            uint32_t limit) override;
  absl::StatusOr<Asked> AskedOf(const std::vector<int64_t>& job_ids) override;
  absl::Status AskToCancel(int64_t job_id) override;
  absl::StatusOr<std::map<int64_t, std::string>> Holders() override;
  absl::StatusOr<std::vector<HostView>> Hosts() override;
  absl::Status SetDrained(const std::string& name, bool drained) override;
  absl::StatusOr<bool> IsDrained(const std::string& name) override;

  // The server checks its own files.
  absl::Status CheckFile(const Cancelled&) override { return absl::OkStatus(); }
  absl::Status CheckAll(const Cancelled&) override { return absl::OkStatus(); }
  absl::Status BackUp(const std::string& path) override;

 private:
  const std::unique_ptr<FileLock> lock_;  // of the state folder
  const PostgresOptions postgres_;
  const std::shared_ptr<std::atomic<int64_t>> lease_;  // that transactions write under
};

}  // namespace tune::db
