// SPDX-License-Identifier: Apache-2.0
#include "db/sqlite_store.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "db/backup.h"
#include "db/columns.h"
#include "db/gate.h"
#include "db/json.h"
#include "db/log_check.h"
#include "db/migrations.h"
#include "db/rows.h"

namespace tune::db {
namespace {

constexpr size_t kMaxSamples = 1 << 20;
constexpr uint32_t kMaxListedSweeps = 100000;
// A larger file is checked after it is opened (LargeStore::CheckFile): seconds a gigabyte.
constexpr uint64_t kCheckedBytesMax = 64 << 20;

// Symbolic links resolved, so that two names of one file share one lock.
absl::StatusOr<std::string> CanonicalPath(const std::string& path) {
  std::error_code error;
  std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (!error) absolute = std::filesystem::weakly_canonical(absolute, error);
  std::error_code no_folder;
  if (!error && absolute.has_filename() && !std::filesystem::is_directory(absolute, no_folder)) {
    return absolute.string();
  }
  return absl::InvalidArgumentError(absl::StrCat("'", path, "' is not the path of a file"));
}

bool IsCheckedAtOnce(const std::string& path) {
  std::error_code error;
  return std::filesystem::file_size(path, error) <= kCheckedBytesMax || error;
}

absl::Status PrepareFile(Connection& connection, const std::string& path) {
  // The first read of the file: damage to its header shows here.
  RETURN_IF_ERROR(connection.QueryInteger("PRAGMA schema_version").status());
  if (IsCheckedAtOnce(path)) RETURN_IF_ERROR(QuickCheck(connection, path));
  RETURN_IF_ERROR(Migrate(connection, path, SchemaSteps()));
  ASSIGN_OR_RETURN(std::string mode, connection.QueryText("PRAGMA journal_mode = WAL"));
  if (mode != "wal") {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " cannot use a write-ahead log (SQLite keeps mode '", mode,
                     "'); choose a folder on a local disk"));
  }
  return connection.Execute("PRAGMA synchronous = FULL");
}

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
    "AND NOT trial.may_pass ";

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

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& path,
                                                   const StoreOptions& options) {
  ASSIGN_OR_RETURN(std::string canonical, CanonicalPath(path));
  RETURN_IF_ERROR(CheckFileSystem(canonical));
  ASSIGN_OR_RETURN(std::unique_ptr<FileLock> lock, FileLock::Take(canonical));
  std::string dropped;
  if (options.drop_damaged_log) {
    ASSIGN_OR_RETURN(dropped, DropDamagedLog(canonical, absl::ToUnixMillis(absl::Now())));
  } else {
    RETURN_IF_ERROR(CheckLog(canonical));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Connection> writer,
                   Connection::Open(canonical, Connection::Mode::kReadWriteCreate));
  if (absl::Status prepared = PrepareFile(*writer, canonical); !prepared.ok()) {
    return absl::Status(prepared.code(), absl::StrCat("cannot open the database ", canonical, ": ",
                                                      prepared.message()));
  }
  auto store =
      std::make_unique<SqliteStore>(std::move(lock), std::move(writer), canonical, options);
  if (!dropped.empty()) store->NoteUnreadable({.table = "log", .why = dropped});
  return store;
}

absl::StatusOr<std::unique_ptr<Store>> Store::OpenToRead(const std::string& path) {
  ASSIGN_OR_RETURN(std::string canonical, CanonicalPath(path));
  std::error_code error;
  if (!std::filesystem::exists(canonical, error)) {
    return absl::NotFoundError(absl::StrCat("there is no database ", canonical, " yet"));
  }
  RETURN_IF_ERROR(CheckFileSystem(canonical));
  ASSIGN_OR_RETURN(std::unique_ptr<Connection> reader,
                   Connection::Open(canonical, Connection::Mode::kReadOnly));
  const absl::StatusOr<int64_t> read = reader->QueryInteger("PRAGMA user_version");
  if (!read.ok()) {
    return absl::Status(read.status().code(),
                        absl::StrCat("'", canonical, "': ", read.status().message()));
  }
  const int64_t version = *read;
  const int64_t newest = NewestVersion();
  if (version != newest) {
    return absl::FailedPreconditionError(absl::StrCat(canonical, " has schema version ", version,
                                                      ", this program reads version ", newest));
  }
  return std::make_unique<SqliteStore>(nullptr, nullptr, canonical, StoreOptions());
}

absl::StatusOr<std::string> Store::Restore(const std::string& backup, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string canonical, CanonicalPath(path));
  RETURN_IF_ERROR(CheckFileSystem(canonical));
  ASSIGN_OR_RETURN(const std::unique_ptr<FileLock> lock, FileLock::Take(canonical));
  return PutInPlace(backup, canonical);
}

std::string Store::WriterOf(const std::string& path) {
  const absl::StatusOr<std::string> canonical = CanonicalPath(path);
  return canonical.ok() ? FileLock::Holder(*canonical) : "";
}

SqliteStore::SqliteStore(std::unique_ptr<FileLock> lock, std::unique_ptr<Connection> writer,
                         const std::string& path, const StoreOptions& options)
    : lock_(std::move(lock)),
      path_(path),
      stored_trial_(options.stored_trial),
      writer_(std::move(writer), options.patience, options.wrote),
      readers_(path, options.patience),
      statistics_readers_(path, options.patience) {}

absl::Status SqliteStore::CheckFile(const Cancelled& cancelled) {
  if (IsCheckedAtOnce(path_)) return absl::OkStatus();
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  return QuickCheck(*reader, path_, cancelled);
}

absl::Status SqliteStore::CheckAll(const Cancelled& cancelled) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  RETURN_IF_ERROR(QuickCheck(*reader, path_, cancelled));
  Statement query = reader->Prepare("PRAGMA foreign_key_check");
  ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) return absl::OkStatus();
  std::string table, parent;
  int64_t row = 0;
  query.Read(table, row, parent);
  return absl::DataLossError(absl::StrCat(path_, ": row ", row, " of ", table,
                                          " refers to a row of ", parent,
                                          " that is not there; put a backup in its place"));
}

absl::Status SqliteStore::BackUp(const std::string& path) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  return CopyTo(*reader, path);
}

absl::Status SqliteStore::PutKernel(const KernelRow& kernel) {
  return writer_.Run([kernel](Connection& connection) { return InsertKernel(connection, kernel); });
}

absl::Status SqliteStore::SetBaseline(const std::vector<KernelRow>& kernels,
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

absl::StatusOr<KernelRow> SqliteStore::GetKernel(const std::string& hash) {
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

absl::Status SqliteStore::KeepKernel(const std::string& owner, const KernelRow& kernel,
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

absl::StatusOr<SweepRow> SqliteStore::AddSweep(SweepRow sweep) {
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

absl::Status SqliteStore::UpdateSweep(const SweepRow& sweep) {
  return writer_.Run([sweep](Connection& connection) { return ChangeSweep(connection, sweep); });
}

absl::Status SqliteStore::NoteSpent(int64_t sweep_id, double spent_seconds) {
  return writer_.Run([=](Connection& connection) -> absl::Status {
    Statement update = connection.Prepare("UPDATE sweep SET spent_seconds = ? WHERE id = ?");
    RETURN_IF_ERROR(update.Bind(spent_seconds, sweep_id).Run());
    if (connection.changed_rows() == 1) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat("no sweep ", sweep_id));
  });
}

absl::StatusOr<SweepRow> SqliteStore::GetSweep(int64_t id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement find = reader->Prepare(absl::StrCat(SelectSweeps(), "WHERE sweep.id = ?"));
  return OneSweep(find.Bind(id), absl::StrCat(id));
}

absl::StatusOr<SweepRow> SqliteStore::SweepOfJob(int64_t job_id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement find = reader->Prepare(absl::StrCat(SelectSweeps(), "WHERE sweep.job_id = ?"));
  return OneSweep(find.Bind(job_id), absl::StrCat("of job ", job_id));
}

absl::StatusOr<std::vector<SweepRow>> SqliteStore::ListSweeps(uint32_t limit) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query = reader->Prepare(absl::StrCat(SelectSweeps(), "ORDER BY sweep.id DESC LIMIT ?"));
  return ReadReadable(query.Bind(std::min(limit, kMaxListedSweeps)), ReadSweep, unreadable_,
                      "sweep");
}

absl::StatusOr<std::vector<SweepRow>> SqliteStore::UnfinishedSweeps() {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query = reader->Prepare(
      absl::StrCat(SelectSweeps(),
                   "WHERE sweep.job_id IN (SELECT id FROM job WHERE state IN (1, 2)) "
                   "ORDER BY sweep.id"));
  return ReadReadable(query, ReadSweep, unreadable_, "sweep");
}

absl::StatusOr<int64_t> SqliteStore::AppendTrial(const Trial& trial, const TrialKey& key) {
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

absl::StatusOr<Trial> SqliteStore::GetTrial(int64_t id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement find =
      reader->Prepare(absl::StrCat(SelectTrials(Samples::kLoad), "WHERE trial.id = ?"));
  ASSIGN_OR_RETURN(bool found, find.Bind(id).Step());
  if (!found) return absl::NotFoundError(absl::StrCat("no trial ", id));
  return ReadTrial(find);
}

absl::StatusOr<TrialKey> SqliteStore::KeyOfTrial(int64_t id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement find = reader->Prepare(absl::StrCat(SelectTrialKeys(), "WHERE trial.id = ?"));
  ASSIGN_OR_RETURN(bool found, find.Bind(id).Step());
  if (!found) return absl::NotFoundError(absl::StrCat("no trial ", id));
  return ReadTrialKey(find);
}

absl::StatusOr<std::vector<Trial>> SqliteStore::TrialsOfSweep(int64_t sweep_id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query = reader->Prepare(
      absl::StrCat(SelectTrials(Samples::kLoad), "WHERE trial.sweep_id = ? ORDER BY trial.id"));
  return ReadReadable(query.Bind(sweep_id), ReadTrial, unreadable_, "trial");
}

absl::StatusOr<std::vector<TrialPoint>> SqliteStore::PointsOfSweep(int64_t sweep_id,
                                                                   uint32_t limit) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query =
      reader->Prepare(absl::StrCat("SELECT ", ColumnsOf<TrialPoint>(),
                                   " FROM trial WHERE sweep_id = ? ORDER BY id DESC LIMIT ?"));
  query.Bind(sweep_id, limit);
  const auto read = [](Statement& row) { return ReadRow<TrialPoint>(row); };
  return OldestFirst(ReadReadable(query, read, unreadable_, "trial"));
}

absl::StatusOr<std::vector<Trial>> SqliteStore::TrialsAfter(int64_t sweep_id, int64_t trial_id,
                                                            uint32_t limit) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query = reader->Prepare(
      absl::StrCat(SelectTrials(Samples::kLoad),
                   "WHERE trial.sweep_id = ? AND trial.id > ? ORDER BY trial.id LIMIT ?"));
  return ReadReadable(query.Bind(sweep_id, trial_id, limit), ReadTrial, unreadable_, "trial");
}

absl::StatusOr<std::vector<Trial>> SqliteStore::TrialsOfKey(const TrialKey& key, uint32_t limit) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  ASSIGN_OR_RETURN(int64_t key_id, FindTrialKey(*reader, key));
  return KnownTrials(*reader, {.key_id = key_id}, limit, unreadable_);
}

absl::StatusOr<std::vector<lookup::TimedConfig>> SqliteStore::FastestOfKey(const TrialKey& key,
                                                                           uint32_t limit) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  ASSIGN_OR_RETURN(int64_t key_id, FindTrialKey(*reader, key));
  // With max(), SQLite takes the other columns from the row that has it.
  const std::string columns = ColumnsOf<lookup::TimedConfig>();
  Statement query = reader->Prepare(absl::StrCat(
      "SELECT ", columns, " FROM (SELECT ", columns,
      ", outcome, max(id) FROM trial WHERE key_id = ? AND purpose = ? GROUP BY config) "
      "WHERE outcome = ? AND latency_ns_median > 0 ORDER BY latency_ns_median, config LIMIT ?"));
  query.Bind(key_id, TrialPurpose::kSearch, Outcome::kOk, limit);
  return ReadReadable(query, ReadTimedConfig, unreadable_, "trial");
}

absl::StatusOr<std::vector<Trial>> SqliteStore::TrialsKnownTo(const SweepRow& sweep,
                                                              uint32_t limit) {
  if (sweep.fresh) return std::vector<Trial>();
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  ASSIGN_OR_RETURN(const Known known, KnownTo(*reader, sweep));
  if (known.key_id == 0) return std::vector<Trial>();
  return KnownTrials(*reader, known, limit, unreadable_);
}

absl::StatusOr<std::vector<int64_t>> SqliteStore::TrialIdsOf(int64_t sweep_id, int64_t after,
                                                             uint32_t limit) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query =
      reader->Prepare("SELECT id FROM trial WHERE sweep_id = ? AND id > ? ORDER BY id LIMIT ?");
  return ReadIds(query.Bind(sweep_id, after, limit));
}

absl::StatusOr<std::vector<int64_t>> SqliteStore::TrialIdsKnownTo(const SweepRow& sweep,
                                                                  int64_t after, uint32_t limit) {
  if (sweep.fresh) return std::vector<int64_t>();
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  ASSIGN_OR_RETURN(const Known known, KnownTo(*reader, sweep));
  if (known.key_id == 0) return std::vector<int64_t>();
  Statement query = reader->Prepare(absl::StrCat("SELECT id FROM (SELECT id FROM trial WHERE ",
                                                 kIsKnown, "ORDER BY id DESC LIMIT ?) ",
                                                 "WHERE id > ? ORDER BY id LIMIT ?"));
  BindKnown(known, query).Bind(kKnownTrialsMax, after, limit);
  return ReadIds(query);
}

absl::StatusOr<std::vector<Trial>> SqliteStore::TrialsWithIds(const std::vector<int64_t>& ids,
                                                              bool whole) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  ASSIGN_OR_RETURN(const std::string list, Encode(ids));
  Statement query = reader->Prepare(
      absl::StrCat(SelectTrials(whole ? Samples::kLoad : Samples::kLeaveOut),
                   "WHERE trial.id IN (SELECT value FROM json_each(?)) ORDER BY trial.id"));
  return ReadReadable(query.Bind(list), ReadTrial, unreadable_, "trial");
}

absl::StatusOr<std::vector<Trial>> SqliteStore::NewestOfSweep(int64_t sweep_id, uint32_t limit) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query = reader->Prepare(absl::StrCat(
      SelectTrials(Samples::kLeaveOut), "WHERE trial.sweep_id = ? ORDER BY trial.id DESC LIMIT ?"));
  query.Bind(sweep_id, limit);
  return OldestFirst(ReadReadable(query, ReadTrial, unreadable_, "trial"));
}

absl::StatusOr<std::vector<TrialKey>> SqliteStore::TrialKeysOfKernel(const std::string& kernel_name,
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

absl::StatusOr<StoreStatistics> SqliteStore::Statistics() {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, statistics_readers_.Borrow());
  StoreStatistics statistics;
  // The last id less those that were removed; counting would read a whole index.
  ASSIGN_OR_RETURN(statistics.trial_count,
                   reader->QueryInteger("SELECT coalesce(max(id), 0) - "
                                        "(SELECT trials FROM removed) FROM trial"));
  ASSIGN_OR_RETURN(statistics.record_count, CountRecords(*reader));
  ASSIGN_OR_RETURN(statistics.withdrawn_record_count,
                   reader->QueryInteger("SELECT count(*) FROM withdrawn_record"));
  ASSIGN_OR_RETURN(statistics.schema_version, reader->QueryInteger("PRAGMA user_version"));
  statistics.sqlite_version = sqlite3_libversion();
  return statistics;
}

}  // namespace tune::db
