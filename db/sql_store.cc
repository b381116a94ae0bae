// SPDX-License-Identifier: Apache-2.0
#include "db/sql_store.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "db/columns.h"
#include "db/gate.h"
#include "db/json.h"
#include "db/rows.h"

namespace tune::db {
namespace {

constexpr size_t kMaxSamples = 1 << 20;
constexpr uint32_t kMaxListedSweeps = 100000;
absl::Status InsertKernel(Connection& connection, const KernelRow& kernel) {
  Statement insert = connection.Prepare(
      "INSERT INTO kernel (hash, name, spec_name, spec_text) VALUES (?, ?, ?, ?) "
      "ON CONFLICT (hash) DO NOTHING");
  insert.Bind(kernel.hash, kernel.name, kernel.spec_name, kernel.spec_text);
  RETURN_IF_ERROR(insert.Run());
  if (connection.changed_rows() == 0) return absl::OkStatus();  // stored before
  for (const auto& [name, text] : kernel.files) {
    Statement insert_file =
        connection.Prepare("INSERT INTO kernel_file (kernel_hash, name, text) VALUES (?, ?, ?)");
    RETURN_IF_ERROR(insert_file.Bind(kernel.hash, name, text).Run());
  }
  return absl::OkStatus();
}

// The trials of a key as they were once.
struct Known {
  int64_t key_id = 0;
  int64_t trial_id_end = std::numeric_limits<int64_t>::max();
  int64_t sweep_id_end = std::numeric_limits<int64_t>::max();
};

// The newest trial of each config, unless it may come out otherwise.
constexpr char kIsKnown[] =
    "trial.id IN (SELECT max(id) FROM trial WHERE key_id = ? AND purpose = ? "
    "AND id < ? AND sweep_id < ? GROUP BY config) AND trial.outcome IN (?, ?, ?, ?) "
    "AND trial.may_pass = 0 ";

Statement& BindKnown(const Known& known, Statement& query) {
  return query.Bind(known.key_id, TrialPurpose::kSearch, known.trial_id_end, known.sweep_id_end,
                    Outcome::kOk, Outcome::kInvalidConfig, Outcome::kCompileFailed,
                    Outcome::kWrongResult);
}

template <typename Row>
absl::StatusOr<std::vector<Row>> OldestFirst(absl::StatusOr<std::vector<Row>> rows) {
  if (rows.ok()) std::reverse(rows->begin(), rows->end());
  return rows;
}

// The newest `limit` of the known trials, oldest first.
absl::StatusOr<std::vector<Trial>> KnownTrials(Connection& connection, const Known& known,
                                               uint32_t limit, Unreadable& unreadable) {
  Statement query = connection.Prepare(absl::StrCat(SelectTrials(Samples::kLeaveOut), "WHERE ",
                                                    kIsKnown, "ORDER BY trial.id DESC LIMIT ?"));
  BindKnown(known, query).Bind(limit);
  return OldestFirst(ReadReadable(query, ReadTrial, unreadable, "trial"));
}

absl::StatusOr<std::vector<int64_t>> ReadIds(Statement& query) {
  std::vector<int64_t> ids;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return ids;
    ids.push_back(query.FirstInteger());
  }
}

// The trials that existed before a sweep's first trial. A sweep that had nothing left to try has no
// trials: its key is the last under which earlier sweeps of its problem measured.
absl::StatusOr<Known> KnownTo(Connection& connection, const SweepRow& sweep) {
  Known known;
  Statement own =
      connection.Prepare("SELECT id, key_id FROM trial WHERE sweep_id = ? ORDER BY id LIMIT 1");
  ASSIGN_OR_RETURN(const bool has_own, own.Bind(sweep.id).Step());
  if (has_own) {
    own.Read(known.trial_id_end, known.key_id);
    return known;
  }
  known.sweep_id_end = sweep.id;
  ASSIGN_OR_RETURN(const std::string dims, Encode(sweep.problem.dims));
  Statement last = connection.Prepare(
      "SELECT trial.key_id FROM trial_key JOIN trial ON trial.key_id = trial_key.id "
      "WHERE kernel_hash = ? AND dims = ? AND dtype = ? AND device_name = ? AND target = ? "
      "AND cache_mode = ? AND trial.sweep_id < ? ORDER BY trial.id DESC LIMIT 1");
  last.Bind(sweep.kernel_hash, dims, ToText(sweep.problem.dtype), sweep.device_name, sweep.target,
            sweep.cache_mode, sweep.id);
  ASSIGN_OR_RETURN(const bool found, last.Step());
  if (found) last.Read(known.key_id);
  return known;
}

absl::StatusOr<SweepRow> OneSweep(Statement& query, absl::string_view wanted) {
  ASSIGN_OR_RETURN(bool found, query.Step());
  if (!found) return absl::NotFoundError(absl::StrCat("no sweep ", wanted));
  return ReadSweep(query);
}

}  // namespace

SqlStore::SqlStore(std::unique_ptr<Connection> writer, const Readers::Connect& connect,
                   const StoreOptions& options)
    : stored_trial_(options.stored_trial),
      writer_(std::move(writer), options.patience, options.wrote),
      readers_(connect, options.patience),
      statistics_readers_(connect, options.patience) {}

absl::Status SqlStore::PutKernel(const KernelRow& kernel) {
  return writer_.Run([kernel](Connection& connection) { return InsertKernel(connection, kernel); });
}

absl::Status SqlStore::SetBaseline(const std::vector<KernelRow>& kernels,
                                   const std::vector<BaselineRow>& rows) {
  return writer_.Run([=](Connection& connection) -> absl::Status {
    for (const KernelRow& kernel : kernels) RETURN_IF_ERROR(InsertKernel(connection, kernel));
    for (const BaselineRow& row : rows) {
      RETURN_IF_ERROR(connection.Prepare("DELETE FROM baseline WHERE name = ? AND kernel_name = ?")
                          .Bind(row.name, row.kernel_name)
                          .Run());
      RETURN_IF_ERROR(Insert(connection, "baseline", row));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelRow> SqlStore::GetKernel(const std::string& hash) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement find =
      reader->Prepare("SELECT hash, name, spec_name, spec_text FROM kernel WHERE hash = ?");
  ASSIGN_OR_RETURN(bool found, find.Bind(hash).Step());
  if (!found) return absl::NotFoundError(absl::StrCat("no kernel with hash ", hash));
  KernelRow kernel;
  find.Read(kernel.hash, kernel.name, kernel.spec_name, kernel.spec_text);
  Statement files = reader->Prepare("SELECT name, text FROM kernel_file WHERE kernel_hash = ?");
  files.Bind(hash);
  while (true) {
    ASSIGN_OR_RETURN(bool has_file, files.Step());
    if (!has_file) return kernel;
    std::string name;
    files.Read(name);
    files.Read(kernel.files[name]);
  }
}

absl::Status SqlStore::KeepKernel(const std::string& owner, const KernelRow& kernel,
                                  uint64_t bytes_max) {
  return writer_.Run([=](Connection& connection) -> absl::Status {
    RETURN_IF_ERROR(InsertKernel(connection, kernel));
    size_t own_bytes = kernel.spec_text.size();
    for (const auto& [name, text] : kernel.files) own_bytes += text.size();
    Statement note = connection.Prepare(
        "INSERT INTO kernel_owner (owner, kernel_hash, bytes) VALUES (?, ?, ?) "
        "ON CONFLICT DO NOTHING");
    RETURN_IF_ERROR(note.Bind(owner, kernel.hash, own_bytes).Run());
    const bool kept_before = connection.changed_rows() == 0;
    Statement date = connection.Prepare(
        "UPDATE kernel_owner SET kept_unix_ms = unixepoch() * 1000 "
        "WHERE owner = ? AND kernel_hash = ?");
    RETURN_IF_ERROR(date.Bind(owner, kernel.hash).Run());
    if (kept_before) return absl::OkStatus();
    Statement sum = connection.Prepare("SELECT kernel_bytes FROM stored WHERE owner = ?");
    RETURN_IF_ERROR(sum.Bind(owner).Step().status());
    const auto bytes = static_cast<uint64_t>(sum.FirstInteger());
    if (bytes <= bytes_max) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat(bytes, " bytes; at most ", bytes_max));  // nothing is noted
  });
}

absl::StatusOr<SweepRow> SqlStore::AddSweep(SweepRow sweep) {
  return writer_.Compute<SweepRow>(
      [sweep = std::move(sweep)](Connection& connection) -> absl::StatusOr<SweepRow> {
        if (!sweep.idempotency_key.empty()) {
          Statement find =
              connection.Prepare(absl::StrCat(SelectSweeps(), "WHERE sweep.idempotency_key = ?"));
          absl::StatusOr<SweepRow> known =
              OneSweep(find.Bind(sweep.idempotency_key), sweep.idempotency_key);
          if (!absl::IsNotFound(known.status())) return known;
        }
        SweepRow added = sweep;
        RETURN_IF_ERROR(InsertSweep(connection, added));
        return added;
      });
}

absl::Status SqlStore::UpdateSweep(const SweepRow& sweep) {
  return writer_.Run([sweep](Connection& connection) { return ChangeSweep(connection, sweep); });
}

absl::Status SqlStore::NoteSpent(int64_t sweep_id, double spent_seconds) {
  return writer_.Run([=](Connection& connection) -> absl::Status {
    Statement update = connection.Prepare("UPDATE sweep SET spent_seconds = ? WHERE id = ?");
    RETURN_IF_ERROR(update.Bind(spent_seconds, sweep_id).Run());
    if (connection.changed_rows() == 1) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat("no sweep ", sweep_id));
  });
}

absl::StatusOr<SweepRow> SqlStore::GetSweep(int64_t id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement find = reader->Prepare(absl::StrCat(SelectSweeps(), "WHERE sweep.id = ?"));
  return OneSweep(find.Bind(id), absl::StrCat(id));
}

absl::StatusOr<SweepRow> SqlStore::SweepOfJob(int64_t job_id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement find = reader->Prepare(absl::StrCat(SelectSweeps(), "WHERE sweep.job_id = ?"));
  return OneSweep(find.Bind(job_id), absl::StrCat("of job ", job_id));
}

absl::StatusOr<std::vector<SweepRow>> SqlStore::ListSweeps(uint32_t limit) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query = reader->Prepare(absl::StrCat(SelectSweeps(), "ORDER BY sweep.id DESC LIMIT ?"));
  return ReadReadable(query.Bind(std::min(limit, kMaxListedSweeps)), ReadSweep, unreadable_,
                      "sweep");
}

absl::StatusOr<std::vector<SweepRow>> SqlStore::UnfinishedSweeps() {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query = reader->Prepare(
      absl::StrCat(SelectSweeps(),
                   "WHERE sweep.job_id IN (SELECT id FROM job WHERE state IN (1, 2)) "
                   "ORDER BY sweep.id"));
  return ReadReadable(query, ReadSweep, unreadable_, "sweep");
}

absl::StatusOr<int64_t> SqlStore::AppendTrial(const Trial& trial, const TrialKey& key) {
  if (trial.measurement.samples_ns.size() > kMaxSamples) {
    return absl::InvalidArgumentError(absl::StrCat("a trial has ",
                                                   trial.measurement.samples_ns.size(),
                                                   " samples, the limit is ", kMaxSamples));
  }
  const absl::StatusOr<int64_t> id =
      writer_.Compute<int64_t>([trial, key](Connection& connection) -> absl::StatusOr<int64_t> {
        ASSIGN_OR_RETURN(int64_t key_id, AddTrialKey(connection, key));
        return InsertTrial(connection, trial, key_id);
      });
  if (id.ok() && stored_trial_) stored_trial_(trial);
  return id;
}

absl::StatusOr<Trial> SqlStore::GetTrial(int64_t id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement find =
      reader->Prepare(absl::StrCat(SelectTrials(Samples::kLoad), "WHERE trial.id = ?"));
  ASSIGN_OR_RETURN(bool found, find.Bind(id).Step());
  if (!found) return absl::NotFoundError(absl::StrCat("no trial ", id));
  return ReadTrial(find);
}

absl::StatusOr<TrialKey> SqlStore::KeyOfTrial(int64_t id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement find = reader->Prepare(absl::StrCat(SelectTrialKeys(), "WHERE trial.id = ?"));
  ASSIGN_OR_RETURN(bool found, find.Bind(id).Step());
  if (!found) return absl::NotFoundError(absl::StrCat("no trial ", id));
  return ReadTrialKey(find);
}

absl::StatusOr<std::vector<Trial>> SqlStore::TrialsOfSweep(int64_t sweep_id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query = reader->Prepare(
      absl::StrCat(SelectTrials(Samples::kLoad), "WHERE trial.sweep_id = ? ORDER BY trial.id"));
  return ReadReadable(query.Bind(sweep_id), ReadTrial, unreadable_, "trial");
}

absl::StatusOr<std::vector<TrialPoint>> SqlStore::PointsOfSweep(int64_t sweep_id, uint32_t limit) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query =
      reader->Prepare(absl::StrCat("SELECT ", ColumnsOf<TrialPoint>(),
                                   " FROM trial WHERE sweep_id = ? ORDER BY id DESC LIMIT ?"));
  query.Bind(sweep_id, limit);
  const auto read = [](Statement& row) { return ReadRow<TrialPoint>(row); };
  return OldestFirst(ReadReadable(query, read, unreadable_, "trial"));
}

absl::StatusOr<std::vector<Trial>> SqlStore::TrialsAfter(int64_t sweep_id, int64_t trial_id,
                                                         uint32_t limit) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query = reader->Prepare(
      absl::StrCat(SelectTrials(Samples::kLoad),
                   "WHERE trial.sweep_id = ? AND trial.id > ? ORDER BY trial.id LIMIT ?"));
  return ReadReadable(query.Bind(sweep_id, trial_id, limit), ReadTrial, unreadable_, "trial");
}

absl::StatusOr<std::vector<Trial>> SqlStore::TrialsOfKey(const TrialKey& key, uint32_t limit) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  ASSIGN_OR_RETURN(int64_t key_id, FindTrialKey(*reader, key));
  return KnownTrials(*reader, {.key_id = key_id}, limit, unreadable_);
}

absl::StatusOr<std::vector<lookup::TimedConfig>> SqlStore::FastestOfKey(const TrialKey& key,
                                                                        uint32_t limit) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  ASSIGN_OR_RETURN(int64_t key_id, FindTrialKey(*reader, key));
  Statement query = reader->Prepare(absl::StrCat(
      "SELECT ", ColumnsOf<lookup::TimedConfig>(),
      " FROM trial WHERE id IN "
      "(SELECT max(id) FROM trial WHERE key_id = ? AND purpose = ? GROUP BY config) "
      "AND outcome = ? AND latency_ns_median > 0 ORDER BY latency_ns_median, config LIMIT ?"));
  query.Bind(key_id, TrialPurpose::kSearch, Outcome::kOk, limit);
  return ReadReadable(query, ReadTimedConfig, unreadable_, "trial");
}

absl::StatusOr<std::vector<Trial>> SqlStore::TrialsKnownTo(const SweepRow& sweep, uint32_t limit) {
  if (sweep.fresh) return std::vector<Trial>();
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  ASSIGN_OR_RETURN(const Known known, KnownTo(*reader, sweep));
  if (known.key_id == 0) return std::vector<Trial>();
  return KnownTrials(*reader, known, limit, unreadable_);
}

absl::StatusOr<std::vector<int64_t>> SqlStore::TrialIdsOf(int64_t sweep_id, int64_t after,
                                                          uint32_t limit) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query =
      reader->Prepare("SELECT id FROM trial WHERE sweep_id = ? AND id > ? ORDER BY id LIMIT ?");
  return ReadIds(query.Bind(sweep_id, after, limit));
}

absl::StatusOr<std::vector<int64_t>> SqlStore::TrialIdsKnownTo(const SweepRow& sweep, int64_t after,
                                                               uint32_t limit) {
  if (sweep.fresh) return std::vector<int64_t>();
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  ASSIGN_OR_RETURN(const Known known, KnownTo(*reader, sweep));
  if (known.key_id == 0) return std::vector<int64_t>();
  Statement query = reader->Prepare(absl::StrCat("SELECT id FROM (SELECT id FROM trial WHERE ",
                                                 kIsKnown, "ORDER BY id DESC LIMIT ?) AS newest ",
                                                 "WHERE id > ? ORDER BY id LIMIT ?"));
  BindKnown(known, query).Bind(kKnownTrialsMax, after, limit);
  return ReadIds(query);
}

absl::StatusOr<std::vector<Trial>> SqlStore::TrialsWithIds(const std::vector<int64_t>& ids,
                                                           bool whole) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  ASSIGN_OR_RETURN(const std::string list, Encode(ids));
  Statement query = reader->Prepare(
      absl::StrCat(SelectTrials(whole ? Samples::kLoad : Samples::kLeaveOut),
                   "WHERE trial.id IN (SELECT value FROM json_each(?)) ORDER BY trial.id"));
  return ReadReadable(query.Bind(list), ReadTrial, unreadable_, "trial");
}

absl::StatusOr<std::vector<Trial>> SqlStore::NewestOfSweep(int64_t sweep_id, uint32_t limit) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query = reader->Prepare(absl::StrCat(
      SelectTrials(Samples::kLeaveOut), "WHERE trial.sweep_id = ? ORDER BY trial.id DESC LIMIT ?"));
  query.Bind(sweep_id, limit);
  return OldestFirst(ReadReadable(query, ReadTrial, unreadable_, "trial"));
}

absl::StatusOr<std::vector<TrialKey>> SqlStore::TrialKeysOfKernel(const std::string& kernel_name,
                                                                  uint32_t limit) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query = reader->Prepare(absl::StrCat(
      SelectKeysOfKernels(),
      "WHERE kernel.name = ? AND EXISTS (SELECT 1 FROM trial JOIN sweep ON sweep.id = sweep_id "
      "WHERE key_id = trial_key.id AND name_space = ?) ORDER BY trial_key.id DESC LIMIT ?"));
  const size_t slash = kernel_name.rfind('/');
  const bool shared = slash == std::string::npos;
  return ReadAll(query.Bind(shared ? kernel_name : kernel_name.substr(slash + 1),
                            shared ? "" : kernel_name.substr(0, slash), limit),
                 ReadTrialKey);
}

absl::StatusOr<StoreStatistics> SqlStore::Statistics() {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, statistics_readers_.Borrow());
  StoreStatistics statistics;
  // The last id less those that were removed; counting would read a whole index.
  ASSIGN_OR_RETURN(statistics.trial_count,
                   reader->QueryInteger("SELECT coalesce(max(id), 0) - "
                                        "(SELECT trials FROM removed) FROM trial"));
  ASSIGN_OR_RETURN(statistics.record_count, CountRecords(*reader));
  ASSIGN_OR_RETURN(statistics.withdrawn_record_count,
                   reader->QueryInteger("SELECT count(*) FROM withdrawn_record"));
  ASSIGN_OR_RETURN(statistics.schema_version, reader->SchemaVersion());
  statistics.engine = reader->EngineVersion();
  return statistics;
}

}  // namespace tune::db
