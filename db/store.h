// SPDX-License-Identifier: Apache-2.0
// The daemon's durable state, in one SQLite file: kernels, jobs, sweeps, trials, records, profiles,
// gate runs, comparisons, tokens.
//
// A Store is opened once by the daemon, which then is the only process that writes the file.
// Evidence is append-only: a trial, leg or profile never changes once it is stored. A record only
// points to its trial, and rows that read back wrong are listed by UnreadableRows instead of
// failing a whole list. Calls that few need are in headers of their own: large_store.h reads long
// lists in pages, retention.h counts and removes what principals have stored. docs/schema.md
// describes the tables.
//
//   ASSIGN_OR_RETURN(auto store, Store::Open("tune.db"));
//   RETURN_IF_ERROR(store->PutKernel(kernel));
//   ASSIGN_OR_RETURN(SweepRow sweep, store->AddSweep(new_sweep));  // with its job
//   ASSIGN_OR_RETURN(trial.id, store->AppendTrial(trial, key));    // durable on return
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "db/comparison.h"
#include "db/gate.h"
#include "db/job.h"
#include "db/large_store.h"
#include "db/leg.h"
#include "db/retention.h"
#include "db/token.h"
#include "lookup/record.h"
#include "tuner/ceiling.h"
#include "tuner/counters/profile.h"
#include "tuner/problem.h"
#include "tuner/trial.h"
#include "tuner/trial_key.h"

namespace tune::db {

// A kernel as submitted. Kept so that a restarted daemon can go on and evidence can be re-run.
struct KernelRow {
  std::string hash;  // SHA-256, hex
  std::string name;
  std::string spec_name;
  std::string spec_text;
  std::map<std::string, std::string> files;
};

struct SweepRow {
  int64_t id = 0;
  JobRow job;  // its state, its device, its times
  std::string kernel_hash;
  // The submitter that owns the kernel; empty for the shared name space. Part of kernel_name.
  std::string name_space;
  std::string kernel_name;  // "attention", "alice/attention"
  Problem problem;
  std::string device_name;
  std::string target;
  std::string strategy;
  uint64_t budget_trials = 0;
  double budget_seconds = 0;
  uint64_t seed = 0;
  CacheMode cache_mode = CacheMode::kCold;
  bool fresh = false;
  std::string idempotency_key;  // unique if not empty
  // The result of the finished sweep: trial ids, 0 for none.
  int64_t best_trial_id = 0;
  int64_t default_trial_id = 0;
  std::vector<int64_t> tie_trial_ids;
  // The devices it may run on, the preferred first. Empty in rows of an older schema: its job's
  // device.
  std::vector<std::string> device_ids;
  double spent_seconds = 0;  // of budget_seconds, by turns that were interrupted
  // Final counts and the roof, for the server to show again; opaque to the store.
  std::string summary;
};
TUNE_FIELDS(SweepRow, id, job, kernel_hash, name_space, kernel_name, problem, device_name, target,
            strategy, budget_trials, budget_seconds, seed, cache_mode, fresh, idempotency_key,
            best_trial_id, default_trial_id, tie_trial_ids, device_ids, spent_seconds, summary);

struct CeilingRow {
  std::string device_name;
  std::string driver;
  Ceiling ceiling;
  int64_t measured_unix_ms = 0;
  std::string uuid;                    // of the device; empty: measured before it was kept
  std::vector<double> process_values;  // one figure of each fresh process
};
TUNE_FIELDS(CeilingRow, device_name, driver, ceiling, measured_unix_ms, uuid, process_values);

// A profile with the key under which it was measured.
struct ProfileRow {
  TrialKey key;
  std::string kernel_name;
  int64_t job_id = 0;  // that counted, and whose owner it counts for; 0: not known
  Profile profile;
};
TUNE_FIELDS(ProfileRow, key, kernel_name, job_id, profile);

// Selects profiles that match every field that is set.
struct ProfileFilter {
  int64_t sweep_id = 0;
  int64_t trial_id = 0;
  std::string kernel_name;
  std::string kernel_hash;
  std::string device_name;
  uint32_t limit = 100;
  int64_t before_id = kNewest;
};

struct CalibrationRow {
  int64_t id = 0;
  std::string device_name;
  std::string chip;
  std::string driver;
  std::string uuid;
  int64_t measured_unix_ms = 0;
  std::vector<CalibrationEntry> entries;
};
TUNE_FIELDS(CalibrationRow, id, device_name, chip, driver, uuid, measured_unix_ms, entries);

struct StoreStatistics {
  uint64_t trial_count = 0;
  uint64_t record_count = 0;
  // Records that an older daemon had published without a confirmation. They no longer count.
  uint64_t withdrawn_record_count = 0;
  uint32_t schema_version = 0;
  std::string sqlite_version;
};

// A row that a list leaves out because its content does not parse.
struct UnreadableRow {
  std::string table;
  int64_t id = 0;
  std::string why;
};

struct StoreOptions {
  // The longest time that a call waits for its turn and the disk.
  absl::Duration patience = absl::Seconds(30);
  // Discards the part of a damaged write-ahead log that cannot be read; a copy of the log is kept.
  bool drop_damaged_log = false;
};

// The most trials of a key that a call returns by default.
inline constexpr uint32_t kKnownTrialsMax = 50000;

// Thread-safe. One writer thread owns the only read-write connection and every checkpoint; writes
// are durable (WAL, synchronous=FULL) when the call returns. Writes that arrive together share a
// commit. Reads use their own read-only connection.
//
// Errors: FAILED_PRECONDITION (another process has the file; schema too new; a network file
// system), RESOURCE_EXHAUSTED (disk full; reads go on), DATA_LOSS (the file is corrupt),
// UNAVAILABLE (busy, or an I/O error: nothing was written), DEADLINE_EXCEEDED (the disk hangs: it
// may have been written), PERMISSION_DENIED (read-only), NOT_FOUND.
class Store : public LargeStore, public Retention {
 public:
  // Opens or creates `path`, migrates its schema (with a backup first) and checks it.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& path,
                                                     const StoreOptions& options = {});
  // Opens a store that another process may be writing to, and takes no lock. Calls that would
  // change it return FAILED_PRECONDITION. So does opening a file of an older schema; NOT_FOUND if
  // there is no file. Open handles both.
  static absl::StatusOr<std::unique_ptr<Store>> OpenToRead(const std::string& path);
  // The process that has the store open to write, as "tunectl (process 17)"; empty if none has.
  static std::string WriterOf(const std::string& path);
  virtual bool writable() const = 0;

  // Kernels are immutable; the same hash again is not an error.
  virtual absl::Status PutKernel(const KernelRow& kernel) = 0;
  virtual absl::StatusOr<KernelRow> GetKernel(const std::string& hash) = 0;
  // Stores a kernel for a principal; each kernel of a principal counts once. RESOURCE_EXHAUSTED,
  // and nothing is stored, if the specs and sources of the principal's kernels would exceed
  // `bytes_max`.
  virtual absl::Status KeepKernel(const std::string& owner, const KernelRow& kernel,
                                  uint64_t bytes_max) = 0;

  // Adds a job and returns its id. `request`: what JobRequest returns until the job has ended;
  // empty: nothing can queue the job again.
  virtual absl::StatusOr<int64_t> AddJob(const JobRow& job, const std::string& request = "") = 0;
  // Replaces state, device, message, times and deaths.
  virtual absl::Status UpdateJob(const JobRow& job) = 0;
  // Empty if the job has none, or has ended.
  virtual absl::StatusOr<std::string> JobRequest(int64_t id) = 0;
  // Stores the last event of a job, once; JobEnd returns it, empty if there is none.
  virtual absl::Status PutJobEnd(int64_t id, const std::string& event) = 0;
  virtual absl::StatusOr<std::string> JobEnd(int64_t id) = 0;
  virtual absl::StatusOr<JobRow> GetJob(int64_t id) = 0;
  virtual absl::StatusOr<std::vector<JobRow>> ListJobs(const JobFilter& filter) = 0;

  // Adds the sweep with its job and sets both ids. If its idempotency key is known, returns the
  // existing sweep instead.
  virtual absl::StatusOr<SweepRow> AddSweep(SweepRow sweep) = 0;
  // Updates its job, and replaces result, spent_seconds and summary.
  virtual absl::Status UpdateSweep(const SweepRow& sweep) = 0;
  // Replaces spent_seconds alone, while the sweep runs. NOT_FOUND.
  virtual absl::Status NoteSpent(int64_t sweep_id, double spent_seconds) = 0;
  virtual absl::StatusOr<SweepRow> GetSweep(int64_t id) = 0;
  virtual absl::StatusOr<SweepRow> SweepOfJob(int64_t job_id) = 0;
  virtual absl::StatusOr<std::vector<SweepRow>> ListSweeps(uint32_t limit) = 0;  // newest first
  // Queued or running sweeps, oldest first: the queue of a restarted daemon.
  virtual absl::StatusOr<std::vector<SweepRow>> UnfinishedSweeps() = 0;

  // Appends a trial with its samples and returns its id. Never changed afterwards.
  virtual absl::StatusOr<int64_t> AppendTrial(const Trial& trial, const TrialKey& key) = 0;
  virtual absl::StatusOr<Trial> GetTrial(int64_t id) = 0;
  // The key under which a trial was measured.
  virtual absl::StatusOr<TrialKey> KeyOfTrial(int64_t id) = 0;
  virtual absl::StatusOr<std::vector<Trial>> TrialsOfSweep(int64_t sweep_id) = 0;  // oldest first
  // At most `limit` trials after `trial_id` (0: from the first), to read a long sweep in pages.
  virtual absl::StatusOr<std::vector<Trial>> TrialsAfter(int64_t sweep_id, int64_t trial_id,
                                                         uint32_t limit) = 0;
  // The trials that a sweep of the same key can reuse: the newest search trial of each config whose
  // outcome is final. Final are ok, invalid_config, wrong_result, and a compile_failed that the
  // compiler reported (not Trial::may_pass). A config whose newest trial ended otherwise is left
  // out, so that it is tried again. Returns the newest `limit`, oldest first, without samples_ns
  // and with the first 500 characters of each message.
  virtual absl::StatusOr<std::vector<Trial>> TrialsOfKey(const TrialKey& key,
                                                         uint32_t limit = kKnownTrialsMax) = 0;
  // The trials that a sweep could reuse when it began: the result of TrialsOfKey at that time.
  // Empty for a fresh sweep.
  virtual absl::StatusOr<std::vector<Trial>> TrialsKnownTo(const SweepRow& sweep,
                                                           uint32_t limit = kKnownTrialsMax) = 0;
  // The newest `limit` trials of a sweep, oldest first, without samples_ns.
  virtual absl::StatusOr<std::vector<Trial>> NewestOfSweep(int64_t sweep_id, uint32_t limit) = 0;
  // The keys under which trials of a kernel are stored, of all its versions, newest first.
  virtual absl::StatusOr<std::vector<TrialKey>> TrialKeysOfKernel(const std::string& kernel_name,
                                                                  uint32_t limit) = 0;

  // Publishes a record, which replaces the current one of its key (kernel hash, include digest,
  // problem, device, target, cache mode, name space of its sweep). Ids grow with every publish. A
  // trial is published once: a repeated call returns the existing record, so a call whose outcome
  // is unknown may be repeated. INVALID_ARGUMENT if the trial is not an ok confirmation, or was
  // measured under another key. `done`, if not null, is the sweep that found it, and is updated in
  // the same transaction.
  virtual absl::StatusOr<int64_t> PublishRecord(const lookup::Record& record,
                                                const SweepRow* done = nullptr) = 0;
  // Oldest first, without samples_ns.
  virtual absl::StatusOr<std::vector<lookup::Record>> CurrentRecords() = 0;
  // Publishes the confirmed winner of every finished sweep that neither a record of that sweep nor
  // one of a later sweep of the same key covers. Used after records were removed. Looks at the
  // sweeps with higher ids than `after_sweep_id` alone. Returns the number published.
  virtual absl::StatusOr<int64_t> RebuildRecords(int64_t after_sweep_id = 0) = 0;

  virtual absl::Status PutCeilings(const std::vector<CeilingRow>& ceilings) = 0;
  // The newest ceiling of each name, sorted by name. An empty `driver` matches every driver; an
  // empty `uuid` matches every device of that name. Rows of an older schema have no UUID, and serve
  // any device of the name until it has its own.
  virtual absl::StatusOr<std::vector<CeilingRow>> GetCeilings(const std::string& device_name,
                                                              const std::string& driver,
                                                              const std::string& uuid) = 0;

  // Appends a profile and returns its id. Never changed afterwards. NOT_FOUND: no such kernel or
  // trial.
  virtual absl::StatusOr<int64_t> AppendProfile(const ProfileRow& row) = 0;
  virtual absl::StatusOr<std::vector<ProfileRow>> ListProfiles(
      const ProfileFilter& filter) = 0;  // newest first

  virtual absl::StatusOr<int64_t> AppendCalibration(const CalibrationRow& row) = 0;
  // The newest calibration. NOT_FOUND if there is none of this device, or of this chip if no device
  // is named.
  virtual absl::StatusOr<CalibrationRow> LatestCalibration(const std::string& device_name,
                                                           const std::string& chip) = 0;

  // Gate runs. A run is added first, under a job that is stored, then its kernels, then the legs of
  // a round of a kernel as they are measured, then the verdicts; all is append-only. Ids grow.
  virtual absl::StatusOr<int64_t> AddGateRun(const GateRunRow& run) = 0;
  virtual absl::StatusOr<GateRunRow> GetGateRun(int64_t id) = 0;
  // Newest first.
  virtual absl::StatusOr<std::vector<GateRunRow>> ListGateRuns(uint32_t limit,
                                                               int64_t before_id = kNewest) = 0;
  virtual absl::StatusOr<int64_t> AddGateKernel(const GateKernelRow& kernel) = 0;
  virtual absl::StatusOr<std::vector<GateKernelRow>> GateKernels(int64_t run_id) = 0;
  // The rows of this name in every run, oldest first.
  virtual absl::StatusOr<std::vector<GateKernelRow>> GateKernelsNamed(const std::string& name) = 0;
  virtual absl::Status AddGateVerdicts(const std::vector<GateVerdictRow>& verdicts) = 0;
  virtual absl::StatusOr<std::vector<GateVerdictRow>> GateVerdicts(int64_t run_id) = 0;

  // Comparisons. One is added first, under a job that is stored, then each kernel on each problem,
  // then its legs as they are measured; all is append-only. Ids grow.
  virtual absl::StatusOr<int64_t> AddComparison(const ComparisonRow& comparison) = 0;
  virtual absl::StatusOr<ComparisonRow> GetComparison(int64_t id) = 0;
  // Newest first.
  virtual absl::StatusOr<std::vector<ComparisonRow>> ListComparisons(
      uint32_t limit, int64_t before_id = kNewest) = 0;
  // The kernel must be stored.
  virtual absl::StatusOr<int64_t> AddCompared(const ComparedRow& compared) = 0;
  virtual absl::StatusOr<std::vector<ComparedRow>> ComparedOf(int64_t comparison_id) = 0;

  // Appends the legs of gates or comparisons, all or none. Never changed afterwards.
  virtual absl::Status AppendLegs(const std::vector<LegRow>& legs) = 0;
  // In the order in which they ran.
  virtual absl::StatusOr<std::vector<LegRow>> GateLegs(int64_t gate_kernel_id) = 0;
  virtual absl::StatusOr<std::vector<LegRow>> ComparisonLegs(int64_t compared_id) = 0;

  // Stores the kernels, and replaces a baseline's row of each kernel name; all or none. The kernel
  // of a row must be stored, or be one of `kernels`.
  virtual absl::Status SetBaseline(const std::vector<KernelRow>& kernels,
                                   const std::vector<BaselineRow>& rows) = 0;
  // At most `limit` rows by name and kernel, after those two.
  virtual absl::StatusOr<std::vector<BaselineRow>> Baselines(
      uint32_t limit = std::numeric_limits<uint32_t>::max(), const std::string& after_name = "",
      const std::string& after_kernel = "") = 0;

  // Adds a token and returns its id. ALREADY_EXISTS if its hash is stored.
  virtual absl::StatusOr<int64_t> AddToken(const TokenRow& token) = 0;
  // Advances the times of the last use and of the revocation; neither goes back.
  virtual absl::Status UpdateToken(const TokenRow& token) = 0;
  virtual absl::StatusOr<std::vector<TokenRow>> ListTokens() = 0;  // newest first
  // Removes tokens that were revoked or had expired before a time.
  virtual absl::Status RemoveTokens(int64_t ended_before_unix_ms) = 0;

  virtual absl::StatusOr<StoreStatistics> Statistics() = 0;
  // Rows that lists have left out since the store was opened, a thousand at most.
  virtual std::vector<UnreadableRow> UnreadableRows() const = 0;
  // Adds a row whose content the caller cannot parse.
  virtual void NoteUnreadable(const UnreadableRow& row) = 0;

  // The configs of a key whose newest search trial was ok, the fastest first.
  virtual absl::StatusOr<std::vector<lookup::TimedConfig>> FastestOfKey(const TrialKey& key,
                                                                        uint32_t limit) = 0;
};

}  // namespace tune::db
