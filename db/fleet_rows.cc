// SPDX-License-Identifier: Apache-2.0
// PostgresStore's calls about hosts.
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "db/columns.h"
#include "db/fleet_store.h"
#include "db/json.h"
#include "db/postgres_store.h"

namespace tune::db {
namespace {

// A job that was just submitted starts where it was, if a device is free there.
constexpr int64_t kSettleMs = 300;

absl::Status End(Connection& connection, int64_t lease) {
  RETURN_IF_ERROR(connection.Prepare("UPDATE job SET lease = 0 WHERE lease = ? AND state IN (1, 2)")
                      .Bind(lease)
                      .Run());
  RETURN_IF_ERROR(connection.Prepare("DELETE FROM heartbeat WHERE lease = ?").Bind(lease).Run());
  return connection.Prepare("DELETE FROM host WHERE lease = ?").Bind(lease).Run();
}

}  // namespace

absl::StatusOr<int64_t> PostgresStore::Join(const HostRow& host) {
  const absl::StatusOr<int64_t> lease = writer().Compute<int64_t>([host](Connection& connection)
                                                                      -> absl::StatusOr<int64_t> {
    ASSIGN_OR_RETURN(const auto before,
                     Select<HostRow>(connection, {}, "host WHERE name = ? AND state_dir = ?",
                                     host.name, host.state_dir));
    for (const HostRow& row : before) RETURN_IF_ERROR(End(connection, row.lease));
    Statement insert =
        connection.Prepare(InsertText<HostRow>("host", {{"lease"}}, "") + " RETURNING lease");
    RETURN_IF_ERROR(BindRow(insert, host, {{"lease"}}));
    ASSIGN_OR_RETURN(const int64_t added, ReturnedId(insert));
    RETURN_IF_ERROR(
        connection.Prepare("INSERT INTO heartbeat (lease, beats) VALUES (?, 0)").Bind(added).Run());
    return added;
  });
  if (lease.ok()) *lease_ = *lease;
  return lease;
}

absl::Status PostgresStore::Beat(const std::string& devices) {
  return writer().Run([devices, lease = lease_->load()](Connection& connection) -> absl::Status {
    RETURN_IF_ERROR(connection.Prepare("UPDATE heartbeat SET beats = beats + 1 WHERE lease = ?")
                        .Bind(lease)
                        .Run());
    if (connection.changed_rows() != 1) {
      return absl::AbortedError("another host found this one gone and ended its lease");
    }
    return connection.Prepare("UPDATE host SET devices = ? WHERE lease = ? AND devices <> ?")
        .Bind(devices, lease, devices)
        .Run();
  });
}

absl::StatusOr<std::map<int64_t, int64_t>> PostgresStore::Beats() {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers().Borrow());
  Statement query = reader->Prepare("SELECT lease, beats FROM heartbeat");
  std::map<int64_t, int64_t> beats;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return beats;
    int64_t lease = 0;
    query.Read(lease, beats[query.FirstInteger()]);
  }
}

absl::Status PostgresStore::EndLease(int64_t lease, int64_t beats) {
  return writer().Run([=](Connection& connection) -> absl::Status {
    Statement still =
        connection.Prepare("SELECT lease FROM heartbeat WHERE lease = ? AND beats = ? FOR UPDATE");
    ASSIGN_OR_RETURN(const bool found, still.Bind(lease, beats).Step());
    return found ? End(connection, lease) : absl::OkStatus();
  });
}

absl::Status PostgresStore::Leave() {
  return writer().Run(
      [lease = lease_->load()](Connection& connection) { return End(connection, lease); });
}

absl::StatusOr<std::vector<JobRow>> PostgresStore::Claim(const std::string& device_name,
                                                         const std::vector<std::string>& device_ids,
                                                         uint32_t limit) {
  ASSIGN_OR_RETURN(const std::string ids, Encode(device_ids));
  return writer().Compute<std::vector<JobRow>>(
      [=, lease = lease_->load()](Connection& connection) -> absl::StatusOr<std::vector<JobRow>> {
        Statement claim = connection.Prepare(absl::StrCat(
            "UPDATE job SET lease = ?, cancel_asked = 0 WHERE id IN ("
            "SELECT id FROM job WHERE state IN (1, 2) AND (lease = 0 OR "
            "(lease <> ? AND state = 1 AND created_unix_ms < ?)) "
            "AND runs_on IN (?, '') "
            "AND (kind = ? OR device_id IN (SELECT json_array_elements_text(?::json))) "
            "ORDER BY priority, deaths, id LIMIT ? FOR UPDATE SKIP LOCKED) RETURNING ",
            ColumnsOf<JobRow>()));
        claim.Bind(lease, lease, absl::ToUnixMillis(absl::Now()) - kSettleMs, device_name,
                   JobKind::kSweep, ids, limit);
        return ReadAll(claim, [](Statement& row) { return ReadRow<JobRow>(row); });
      });
}

absl::StatusOr<FleetStore::Asked> PostgresStore::AskedOf(const std::vector<int64_t>& job_ids) {
  ASSIGN_OR_RETURN(const std::string list, Encode(job_ids));
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers().Borrow());
  Statement query = reader->Prepare(
      "SELECT id, lease FROM job WHERE id IN (SELECT value FROM json_each(?)) "
      "AND state IN (1, 2) AND (lease <> ? OR cancel_asked = 1)");
  const int64_t own = *lease_;
  query.Bind(list, own);
  Asked asked;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return asked;
    int64_t id = 0, lease = 0;
    query.Read(id, lease);
    (lease == own ? asked.cancelled : asked.lost).push_back(id);
  }
}

absl::Status PostgresStore::AskToCancel(int64_t job_id) {
  return writer().Run([job_id](Connection& connection) {
    return connection.Prepare("UPDATE job SET cancel_asked = 1 WHERE id = ?").Bind(job_id).Run();
  });
}

absl::StatusOr<std::map<int64_t, std::string>> PostgresStore::Holders() {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers().Borrow());
  Statement query = reader->Prepare(
      "SELECT job.id, host.name FROM job JOIN host ON host.lease = job.lease "
      "WHERE job.state IN (1, 2)");
  std::map<int64_t, std::string> holders;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return holders;
    int64_t id = 0;
    query.Read(id, holders[query.FirstInteger()]);
  }
}

absl::StatusOr<std::vector<HostView>> PostgresStore::Hosts() {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers().Borrow());
  Statement query = reader->Prepare(
      absl::StrCat("SELECT ", ColumnsOf<HostRow>(),
                   ", (SELECT count(*) FROM drained_host WHERE "
                   "drained_host.name = host.name), "
                   "(SELECT count(*) FROM job WHERE job.lease = host.lease AND state = 2), "
                   "(SELECT count(*) FROM job WHERE job.lease = host.lease AND state = 1) "
                   "FROM host ORDER BY name, lease"));
  return ReadAll(query, [](Statement& row) -> absl::StatusOr<HostView> {
    HostView view;
    ASSIGN_OR_RETURN(view.row, ReadRow<HostRow>(row));
    row.Read(view.drained, view.running_jobs, view.waiting_jobs);
    return view;
  });
}

absl::Status PostgresStore::SetDrained(const std::string& name, bool drained) {
  return writer().Run([=](Connection& connection) -> absl::Status {
    Statement find = connection.Prepare(
        "SELECT name FROM host WHERE name = ? UNION ALL SELECT name FROM drained_host WHERE name = "
        "?");
    ASSIGN_OR_RETURN(const bool found, find.Bind(name, name).Step());
    if (!found) {
      return absl::NotFoundError(
          absl::StrCat("no host '", name, "' shares the store; see `tunectl fleet list`"));
    }
    const char* const change = drained
                                   ? "INSERT INTO drained_host VALUES (?) ON CONFLICT DO NOTHING"
                                   : "DELETE FROM drained_host WHERE name = ?";
    return connection.Prepare(change).Bind(name).Run();
  });
}

absl::StatusOr<bool> PostgresStore::IsDrained(const std::string& name) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers().Borrow());
  Statement query = reader->Prepare("SELECT name FROM drained_host WHERE name = ?");
  return query.Bind(name).Step();
}

}  // namespace tune::db
