// SPDX-License-Identifier: Apache-2.0
// SqlStore's calls about what owners have stored.
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "db/retention.h"
#include "db/rows.h"
#include "db/sql_store.h"

namespace tune::db {
namespace {

// In one transaction: other writes wait for it.
constexpr uint32_t kJobsAtOnce = 20;

constexpr char kTouched[] = R"sql(
  CREATE TEMP TABLE IF NOT EXISTS kept_trial (id INTEGER PRIMARY KEY);
  CREATE TEMP TABLE IF NOT EXISTS touched_key (id INTEGER PRIMARY KEY);
  CREATE TEMP TABLE IF NOT EXISTS touched_kernel (hash TEXT PRIMARY KEY);
  DELETE FROM kept_trial; DELETE FROM touched_key; DELETE FROM touched_kernel;
)sql";

// Keeps trials that other sweeps or records refer to. The newest trial stays for its number.
constexpr char kKeepTrials[] = R"sql(
  DROP VIEW IF EXISTS telling_sweep;
  CREATE TEMP VIEW telling_sweep AS SELECT * FROM sweep
    WHERE job_id NOT IN (SELECT job_id FROM pruned_job)
       OR id IN (SELECT sweep_id FROM trial JOIN record ON trial_id = trial.id);
  INSERT INTO kept_trial SELECT trial_id FROM record WHERE true ON CONFLICT DO NOTHING;
  INSERT INTO kept_trial SELECT trial_id FROM withdrawn_record WHERE true ON CONFLICT DO NOTHING;
  INSERT INTO kept_trial
    SELECT best_trial_id FROM telling_sweep WHERE best_trial_id IS NOT NULL ON CONFLICT DO NOTHING;
  INSERT INTO kept_trial
    SELECT default_trial_id FROM telling_sweep WHERE default_trial_id IS NOT NULL
    ON CONFLICT DO NOTHING;
  INSERT INTO kept_trial
    SELECT tie.value FROM telling_sweep,
      json_each(CASE json_valid(tie_trial_ids) WHEN 1 THEN tie_trial_ids ELSE '[]' END) AS tie
    WHERE tie.type = 'integer' ON CONFLICT DO NOTHING;
  INSERT INTO kept_trial SELECT max(id) FROM trial HAVING max(id) > 0 ON CONFLICT DO NOTHING;
)sql";

constexpr char kRemove[] = R"sql(
  INSERT INTO touched_kernel
    SELECT kernel_hash FROM sweep WHERE job_id IN (SELECT job_id FROM pruned_job)
    ON CONFLICT DO NOTHING;
  INSERT INTO touched_kernel
    SELECT kernel_hash FROM compared JOIN comparison ON comparison.id = comparison_id
    WHERE job_id IN (SELECT job_id FROM pruned_job) AND kernel_hash IS NOT NULL
    ON CONFLICT DO NOTHING;
  DROP VIEW IF EXISTS pruned_gate_kernel;
  CREATE TEMP VIEW pruned_gate_kernel AS SELECT * FROM gate_kernel
    WHERE run_id IN (SELECT id FROM gate_run
                     WHERE job_id IN (SELECT job_id FROM pruned_job));
  INSERT INTO touched_kernel SELECT head_kernel_hash FROM pruned_gate_kernel WHERE true
    ON CONFLICT DO NOTHING;
  INSERT INTO touched_kernel
    SELECT base_kernel_hash FROM pruned_gate_kernel WHERE base_kernel_hash IS NOT NULL
    ON CONFLICT DO NOTHING;
  INSERT INTO touched_key
    SELECT key_id FROM trial WHERE sweep_id IN
      (SELECT id FROM sweep WHERE job_id IN (SELECT job_id FROM pruned_job)) ON CONFLICT DO NOTHING;
  UPDATE sweep SET best_trial_id = NULL, default_trial_id = NULL, tie_trial_ids = '[]', summary = ''
    WHERE job_id IN (SELECT job_id FROM pruned_job) AND id NOT IN (SELECT id FROM telling_sweep);
  INSERT INTO touched_key
    SELECT key_id FROM profile WHERE job_id IN (SELECT job_id FROM pruned_job)
    ON CONFLICT DO NOTHING;
  INSERT INTO touched_kernel
    SELECT kernel_hash FROM trial_key WHERE id IN (SELECT id FROM touched_key)
    ON CONFLICT DO NOTHING;
  DELETE FROM profile WHERE job_id IN (SELECT job_id FROM pruned_job) OR trial_id IN
    (SELECT id FROM trial WHERE id NOT IN (SELECT id FROM kept_trial) AND sweep_id IN
      (SELECT id FROM sweep WHERE job_id IN (SELECT job_id FROM pruned_job)));
  DELETE FROM trial WHERE id NOT IN (SELECT id FROM kept_trial) AND sweep_id IN
    (SELECT id FROM sweep WHERE job_id IN (SELECT job_id FROM pruned_job));
  DELETE FROM leg WHERE job_id IN (SELECT job_id FROM pruned_job);
  DELETE FROM gate_verdict WHERE gate_kernel_id IN (SELECT id FROM pruned_gate_kernel);
  DELETE FROM gate_kernel WHERE id IN (SELECT id FROM pruned_gate_kernel);
  DELETE FROM gate_run WHERE job_id IN (SELECT job_id FROM pruned_job);
  DELETE FROM compared WHERE comparison_id IN
    (SELECT id FROM comparison WHERE job_id IN (SELECT job_id FROM pruned_job));
  DELETE FROM comparison WHERE job_id IN (SELECT job_id FROM pruned_job);
  DELETE FROM sweep WHERE job_id IN (SELECT job_id FROM pruned_job)
    AND NOT EXISTS (SELECT 1 FROM trial WHERE sweep_id = sweep.id);
  DELETE FROM job_end WHERE job_id IN (SELECT job_id FROM pruned_job);
  UPDATE job SET message = 'its results were removed'
    WHERE id IN (SELECT job_id FROM pruned_job);
  DELETE FROM trial_key WHERE id IN (SELECT id FROM touched_key)
    AND NOT EXISTS (SELECT 1 FROM trial WHERE key_id = trial_key.id)
    AND NOT EXISTS (SELECT 1 FROM profile WHERE key_id = trial_key.id);
)sql";

// Chooses sources whose submission is over: a job of which nothing is stored has left them. No job
// is pruned for them.
constexpr char kChooseOrphans[] =
    "INSERT INTO touched_kernel SELECT kernel_hash FROM kernel_owner "
    "WHERE ?1 = '' OR kernel_hash IN (SELECT kernel_hash FROM kernel_owner WHERE owner = ?1) "
    "GROUP BY kernel_hash HAVING max(kept_unix_ms) < (unixepoch() - 3600) * 1000";

// A job keeps its sources up to an hour before it is stored, and refers to them once it runs.
constexpr char kRemoveSources[] = R"sql(
  DELETE FROM touched_kernel WHERE hash IN (
    SELECT kernel_hash FROM kernel_owner JOIN job ON job.owner = kernel_owner.owner
    WHERE job.state IN (1, 2) AND job.created_unix_ms <= kept_unix_ms + 3600000);
  DELETE FROM touched_kernel WHERE hash IN (SELECT kernel_hash FROM sweep)
    OR hash IN (SELECT kernel_hash FROM trial_key)
    OR hash IN (SELECT base_kernel_hash FROM gate_kernel WHERE base_kernel_hash IS NOT NULL)
    OR hash IN (SELECT head_kernel_hash FROM gate_kernel)
    OR hash IN (SELECT kernel_hash FROM compared WHERE kernel_hash IS NOT NULL)
    OR hash IN (SELECT kernel_hash FROM baseline);
  DELETE FROM kernel_owner WHERE kernel_hash IN (SELECT hash FROM touched_kernel);
  DELETE FROM kernel_file WHERE kernel_hash IN (SELECT hash FROM touched_kernel);
  DELETE FROM kernel WHERE hash IN (SELECT hash FROM touched_kernel);
)sql";

absl::StatusOr<int64_t> Total(Connection& connection) {
  return connection.QueryInteger(
      "SELECT CAST(coalesce(sum(kernel_bytes + result_bytes), 0) AS INTEGER) FROM stored");
}

// Removes the sources that no row refers to.
absl::StatusOr<Pruned> PruneOrphans(Connection& connection, const std::string& owner) {
  ASSIGN_OR_RETURN(const int64_t bytes, Total(connection));
  RETURN_IF_ERROR(connection.Execute(kTouched));
  RETURN_IF_ERROR(connection.Prepare(kChooseOrphans).Bind(owner).Run());
  // Triggers let sources go only while something is pruned: here no job.
  RETURN_IF_ERROR(connection.Execute("INSERT INTO pruned_job VALUES (-1)"));
  RETURN_IF_ERROR(connection.Execute(kRemoveSources));
  RETURN_IF_ERROR(connection.Execute("DELETE FROM pruned_job"));
  ASSIGN_OR_RETURN(const int64_t bytes_left, Total(connection));
  return Pruned{.bytes = static_cast<uint64_t>(bytes - bytes_left)};
}

absl::StatusOr<int64_t> TrialsOfPruned(Connection& connection) {
  return connection.QueryInteger(
      "SELECT count(*) FROM trial WHERE sweep_id IN "
      "(SELECT id FROM sweep WHERE job_id IN (SELECT job_id FROM pruned_job))");
}

absl::StatusOr<Pruned> PruneSome(Connection& connection, const PruneFilter& filter,
                                 int64_t after_job_id) {
  Statement choose = connection.Prepare(
      "INSERT INTO pruned_job SELECT id FROM job WHERE id > ?1 AND state IN (3, 4, 5) "
      "AND finished_unix_ms < ?2 AND (?3 = '' OR owner = ?3) AND ("
      "id IN (SELECT job_id FROM sweep WHERE id < (SELECT max(id) FROM sweep)) OR "
      "id IN (SELECT job_id FROM gate_run WHERE id < (SELECT max(id) FROM gate_run)) OR "
      // Kinds without tables of their own.
      "(kind IN (3, 4, 6, 7) AND id IN (SELECT job_id FROM job_end)) OR "
      "id IN (SELECT job_id FROM profile) OR "
      "id IN (SELECT job_id FROM comparison WHERE id < (SELECT max(id) FROM comparison))) "
      "ORDER BY id LIMIT ?4");
  RETURN_IF_ERROR(
      choose.Bind(after_job_id, filter.before_unix_ms, filter.owner, kJobsAtOnce).Run());
  Pruned pruned;
  pruned.jobs = static_cast<uint64_t>(connection.changed_rows());
  if (pruned.jobs == 0) return PruneOrphans(connection, filter.owner);
  ASSIGN_OR_RETURN(pruned.last_job_id,
                   connection.QueryInteger("SELECT max(job_id) FROM pruned_job"));
  ASSIGN_OR_RETURN(const int64_t bytes, Total(connection));
  ASSIGN_OR_RETURN(const int64_t trials, TrialsOfPruned(connection));
  RETURN_IF_ERROR(connection.Execute(kTouched));
  RETURN_IF_ERROR(connection.Execute(kKeepTrials));
  RETURN_IF_ERROR(connection.Execute(kRemove));
  RETURN_IF_ERROR(connection.Execute(kRemoveSources));
  ASSIGN_OR_RETURN(const int64_t bytes_left, Total(connection));
  // Counts only trials whose sweeps still exist.
  ASSIGN_OR_RETURN(const int64_t trials_left, TrialsOfPruned(connection));
  pruned.trials = static_cast<uint64_t>(trials - trials_left);
  pruned.bytes = static_cast<uint64_t>(bytes - bytes_left);
  RETURN_IF_ERROR(connection.Execute("DELETE FROM pruned_job"));
  return pruned;
}

constexpr char kSelectStored[] =
    "SELECT owner, kernel_bytes, result_bytes, artifact_bytes FROM stored ";

StoredBytes ReadStored(Statement& row) {
  StoredBytes stored;
  row.Read(stored.owner, stored.kernel_bytes, stored.result_bytes, stored.artifact_bytes);
  return stored;
}

absl::StatusOr<std::vector<std::string>> ReadTexts(Statement& query) {
  std::vector<std::string> texts;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return texts;
    query.Read(texts.emplace_back());
  }
}

}  // namespace

absl::StatusOr<StoredBytes> SqlStore::StoredBy(const std::string& owner) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query = reader->Prepare(absl::StrCat(kSelectStored, "WHERE owner = ?"));
  ASSIGN_OR_RETURN(const bool found, query.Bind(owner).Step());
  return found ? ReadStored(query) : StoredBytes{.owner = owner};
}

absl::StatusOr<std::vector<StoredBytes>> SqlStore::StoredMost(uint32_t limit) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, statistics_readers_.Borrow());
  Statement query = reader->Prepare(
      absl::StrCat(kSelectStored, "WHERE owner != '' ",
                   "ORDER BY kernel_bytes + result_bytes + artifact_bytes DESC, owner LIMIT ?"));
  query.Bind(limit);
  std::vector<StoredBytes> stored;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return stored;
    stored.push_back(ReadStored(query));
  }
}

absl::StatusOr<std::vector<std::string>> SqlStore::ArtifactsOf(const std::string& owner) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query = reader->Prepare(
      "SELECT DISTINCT artifact FROM record JOIN trial ON trial.id = trial_id "
      "JOIN sweep ON sweep.id = sweep_id JOIN job ON job.id = job_id "
      "WHERE artifact != '' AND owner = ?");
  return ReadTexts(query.Bind(owner));
}

absl::StatusOr<std::vector<std::string>> SqlStore::NameSpacesOf(const std::string& artifact) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query = reader->Prepare(
      "SELECT DISTINCT name_space FROM record JOIN trial ON trial.id = trial_id "
      "JOIN sweep ON sweep.id = sweep_id WHERE artifact != '' AND artifact = ?");
  return ReadTexts(query.Bind(artifact));
}

absl::Status SqlStore::SetArtifactBytes(const std::string& owner, uint64_t bytes) {
  return writer_.Run([owner, bytes](Connection& connection) {
    return connection
        .Prepare(
            "INSERT INTO stored (owner, artifact_bytes) VALUES (?, ?) "
            "ON CONFLICT (owner) DO UPDATE SET artifact_bytes = excluded.artifact_bytes")
        .Bind(owner, bytes)
        .Run();
  });
}

absl::StatusOr<Pruned> SqlStore::Prune(const PruneFilter& filter, int64_t after_job_id) {
  const auto pruned = std::make_shared<Pruned>();
  const absl::Status status =
      writer_.Run([filter, after_job_id, pruned](Connection& connection) -> absl::Status {
        ASSIGN_OR_RETURN(*pruned, PruneSome(connection, filter, after_job_id));
        // Work that fails is undone.
        return filter.dry_run ? absl::AbortedError("counted") : absl::OkStatus();
      });
  if (!status.ok() && !(filter.dry_run && absl::IsAborted(status))) return status;
  return *pruned;
}

}  // namespace tune::db
