// SPDX-License-Identifier: Apache-2.0
// What the daemon remembers: sweeps, trials, records. SQLite, one writer.
#pragma once

#include <cstdint>
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
#include "db/token.h"
#include "lookup/record.h"
#include "tuner/ceiling.h"
#include "tuner/counters/profile.h"
#include "tuner/problem.h"
#include "tuner/trial.h"
#include "tuner/trial_key.h"

namespace tune::db {

// A kernel as submitted, kept so that a restarted daemon can go on and evidence can be re-run.
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
  // The submitter whose kernel it is; empty: the one that all share. Part of kernel_name.
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
  // What the finished sweep found; trial ids, 0 for none.
  int64_t best_trial_id = 0;
  int64_t default_trial_id = 0;
  std::vector<int64_t> tie_trial_ids;
  // That it may run on, the preferred first; none: its job's, of rows of an older schema.
  std::vector<std::string> device_ids;
  double spent_seconds = 0;  // of budget_seconds, by turns that were interrupted
  // Final counts and the roof, as the server wants to show them again; opaque to the store.
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

// A profile with where its numbers come from.
struct ProfileRow {
  TrialKey key;
  std::string kernel_name;
  Profile profile;
};
TUNE_FIELDS(ProfileRow, key, kernel_name, profile);

// What all that is set must fit.
struct ProfileFilter {
  int64_t sweep_id = 0;
  int64_t trial_id = 0;
  std::string kernel_name;
  std::string kernel_hash;
  std::string device_name;
  uint32_t limit = 100;
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
  // Records that an older daemon had published without a confirmation, and that are none any more.
  uint64_t withdrawn_record_count = 0;
  uint32_t schema_version = 0;
  std::string sqlite_version;
};

// A row that a list leaves out because what it holds makes no sense.
struct UnreadableRow {
  std::string table;
  int64_t id = 0;
  std::string why;
};

struct StoreOptions {
  // How long a call waits for the disk, or for its turn.
  absl::Duration patience = absl::Seconds(30);
  // Go on without the part of a damaged write-ahead log that cannot be read; a copy is kept.
  bool drop_damaged_log = false;
};

// Trials of a key that are given at most.
inline constexpr uint32_t kKnownTrialsMax = 50000;

// Thread-safe. One writer thread owns the only read-write connection and every checkpoint; writes
// are durable (WAL, synchronous=FULL) when the call returns. Writes that arrive together share a
// commit. Reads use their own read-only connection.
//
// Errors: FAILED_PRECONDITION (another process has the file; schema too new; a network file
// system), RESOURCE_EXHAUSTED (disk full; reads go on), DATA_LOSS (the file is corrupt),
// UNAVAILABLE (busy, or an I/O error: nothing was written), DEADLINE_EXCEEDED (the disk hangs: it
// may have been written), PERMISSION_DENIED (read-only), NOT_FOUND.
class Store {
 public:
  // Opens or creates `path`, migrates its schema (with a backup first) and checks it.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& path,
                                                     const StoreOptions& options = {});
  // Opens a store that another process may be writing to, and takes no lock. What would change it
  // is FAILED_PRECONDITION. So is a file of an older schema; NOT_FOUND: there is none yet. Either
  // needs Open.
  static absl::StatusOr<std::unique_ptr<Store>> OpenToRead(const std::string& path);
  // Who has a store open to write, as "tunectl (process 17)"; empty: nobody.
  static std::string WriterOf(const std::string& path);
  virtual ~Store() = default;
  virtual bool writable() const = 0;

  // Kernels are immutable; the same hash again is not an error.
  virtual absl::Status PutKernel(const KernelRow& kernel) = 0;
  virtual absl::StatusOr<KernelRow> GetKernel(const std::string& hash) = 0;
  // Keeps a kernel for a principal, for whom each is counted once. RESOURCE_EXHAUSTED, and nothing
  // is kept: the specs and sources of his kernels would have more bytes than that.
  virtual absl::Status KeepKernel(const std::string& owner, const KernelRow& kernel,
                                  uint64_t bytes_max) = 0;

  // Adds a job and returns its id.
  virtual absl::StatusOr<int64_t> AddJob(const JobRow& job) = 0;
  // Replaces state, device, message, times and deaths.
  virtual absl::Status UpdateJob(const JobRow& job) = 0;
  virtual absl::StatusOr<JobRow> GetJob(int64_t id) = 0;
  virtual absl::StatusOr<std::vector<JobRow>> ListJobs(const JobFilter& filter) = 0;

  // Adds the sweep with its job and gives both their ids. With a known idempotency key: returns the
  // sweep there is instead.
  virtual absl::StatusOr<SweepRow> AddSweep(SweepRow sweep) = 0;
  // Updates its job, and replaces result, spent_seconds and summary.
  virtual absl::Status UpdateSweep(const SweepRow& sweep) = 0;
  // Replaces spent_seconds alone, while the sweep runs. NOT_FOUND.
  virtual absl::Status NoteSpent(int64_t sweep_id, double spent_seconds) = 0;
  virtual absl::StatusOr<SweepRow> GetSweep(int64_t id) = 0;
  virtual absl::StatusOr<std::vector<SweepRow>> ListSweeps(uint32_t limit) = 0;  // newest first
  // Queued or running, oldest first: the queue of a restarted daemon.
  virtual absl::StatusOr<std::vector<SweepRow>> UnfinishedSweeps() = 0;

  // Appends a trial with its samples and returns its id. Never changed afterwards.
  virtual absl::StatusOr<int64_t> AppendTrial(const Trial& trial, const TrialKey& key) = 0;
  virtual absl::StatusOr<Trial> GetTrial(int64_t id) = 0;
  // What a trial was measured under.
  virtual absl::StatusOr<TrialKey> KeyOfTrial(int64_t id) = 0;
  virtual absl::StatusOr<std::vector<Trial>> TrialsOfSweep(int64_t sweep_id) = 0;  // oldest first
  // Those after a trial (0: from the first), at most `limit`: to read a long sweep in pieces.
  virtual absl::StatusOr<std::vector<Trial>> TrialsAfter(int64_t sweep_id, int64_t trial_id,
                                                         uint32_t limit) = 0;
  // The newest search trial of each config of a key whose outcome will not change by itself, for
  // continuing an earlier sweep: ok, invalid_config, wrong_result, and compile_failed by the
  // compiler's own word (not Trial::may_pass). Without samples_ns, and with the first 500
  // characters of each message. A config whose newest trial ended otherwise is not there at all,
  // so it is tried again.
  // Of more than `limit` the newest; oldest first.
  virtual absl::StatusOr<std::vector<Trial>> TrialsOfKey(const TrialKey& key,
                                                         uint32_t limit = kKnownTrialsMax) = 0;
  // What a sweep could reuse when it began: as TrialsOfKey would have told then, whatever was
  // measured since. Nothing of a fresh sweep.
  virtual absl::StatusOr<std::vector<Trial>> TrialsKnownTo(const SweepRow& sweep,
                                                           uint32_t limit = kKnownTrialsMax) = 0;
  // All of a sweep, but of more than `limit` the newest; oldest first, without samples_ns.
  virtual absl::StatusOr<std::vector<Trial>> NewestOfSweep(int64_t sweep_id, uint32_t limit) = 0;
  // The keys under which trials of a kernel are stored, whatever version of it: newest first.
  virtual absl::StatusOr<std::vector<TrialKey>> TrialKeysOfKernel(const std::string& kernel_name,
                                                                  uint32_t limit) = 0;

  // Publishes a record: the newest of a key (kernel hash, include digest, problem, device, target,
  // cache mode, name space of its sweep) wins. Ids grow with every publish. A trial is published
  // once: the same again gives the record there is, so a call whose end is not known may be
  // repeated. INVALID_ARGUMENT: the trial is not an ok one that confirms, or was measured under
  // another key than the record's. `done` is null, or the sweep that found it, which is updated in
  // the same transaction: it is done with its record, or neither.
  virtual absl::StatusOr<int64_t> PublishRecord(const lookup::Record& record,
                                                const SweepRow* done = nullptr) = 0;
  // Oldest first, without samples_ns.
  virtual absl::StatusOr<std::vector<lookup::Record>> CurrentRecords() = 0;
  // Publishes the confirmed winner of every sweep that is done and that no record of that sweep or
  // a later one of the same key covers, for when records were removed. Returns how many.
  virtual absl::StatusOr<int64_t> RebuildRecords() = 0;

  virtual absl::Status PutCeilings(const std::vector<CeilingRow>& ceilings) = 0;
  // The newest of each name; of an empty driver, whatever the driver; of an empty UUID, whichever
  // device of that name. Rows of an older schema have no UUID, and serve any device of the name
  // until it has its own. By name.
  virtual absl::StatusOr<std::vector<CeilingRow>> GetCeilings(const std::string& device_name,
                                                              const std::string& driver,
                                                              const std::string& uuid) = 0;

  // Appends a profile and returns its id. Never changed afterwards. NOT_FOUND: no such kernel or
  // trial.
  virtual absl::StatusOr<int64_t> AppendProfile(const ProfileRow& row) = 0;
  virtual absl::StatusOr<std::vector<ProfileRow>> ListProfiles(
      const ProfileFilter& filter) = 0;  // newest first

  virtual absl::StatusOr<int64_t> AppendCalibration(const CalibrationRow& row) = 0;
  // The newest; NOT_FOUND: none of this device, or of this chip if no device is named.
  virtual absl::StatusOr<CalibrationRow> LatestCalibration(const std::string& device_name,
                                                           const std::string& chip) = 0;

  // Gate runs. A run is added first, under a job that is stored, then its kernels, then the legs of
  // a round of a kernel as they are measured, then the verdicts; all is append-only. Ids grow.
  virtual absl::StatusOr<int64_t> AddGateRun(const GateRunRow& run) = 0;
  virtual absl::StatusOr<GateRunRow> GetGateRun(int64_t id) = 0;
  virtual absl::StatusOr<std::vector<GateRunRow>> ListGateRuns(uint32_t limit) = 0;  // newest first
  virtual absl::StatusOr<int64_t> AddGateKernel(const GateKernelRow& kernel) = 0;
  virtual absl::StatusOr<std::vector<GateKernelRow>> GateKernels(int64_t run_id) = 0;
  // Of every run, oldest first.
  virtual absl::StatusOr<std::vector<GateKernelRow>> GateKernelsNamed(const std::string& name) = 0;
  virtual absl::Status AppendGateLegs(const std::vector<GateLegRow>& legs) = 0;
  virtual absl::StatusOr<std::vector<GateLegRow>> GateLegs(int64_t gate_kernel_id) = 0;
  virtual absl::Status AddGateVerdicts(const std::vector<GateVerdictRow>& verdicts) = 0;
  virtual absl::StatusOr<std::vector<GateVerdictRow>> GateVerdicts(int64_t run_id) = 0;

  // Comparisons. One is added first, under a job that is stored, then each kernel on each problem,
  // then its legs as they are measured; all is append-only. Ids grow.
  virtual absl::StatusOr<int64_t> AddComparison(const ComparisonRow& comparison) = 0;
  virtual absl::StatusOr<ComparisonRow> GetComparison(int64_t id) = 0;
  virtual absl::StatusOr<std::vector<ComparisonRow>> ListComparisons(
      uint32_t limit) = 0;  // newest first
  // The kernel must be stored.
  virtual absl::StatusOr<int64_t> AddCompared(const ComparedRow& compared) = 0;
  virtual absl::StatusOr<std::vector<ComparedRow>> ComparedOf(int64_t comparison_id) = 0;
  virtual absl::Status AppendComparisonLeg(const ComparisonLegRow& leg) = 0;
  virtual absl::StatusOr<std::vector<ComparisonLegRow>> ComparisonLegs(int64_t compared_id) = 0;

  // The kernel must be stored. Replaces what the baseline has under the kernel's name.
  virtual absl::Status SetBaseline(const BaselineRow& baseline) = 0;
  virtual absl::StatusOr<std::vector<BaselineRow>> Baselines() = 0;

  // Adds a token and returns its id. ALREADY_EXISTS: its hash is there.
  virtual absl::StatusOr<int64_t> AddToken(const TokenRow& token) = 0;
  // Moves on the times of the last use and of the revocation; neither goes back.
  virtual absl::Status UpdateToken(const TokenRow& token) = 0;
  virtual absl::StatusOr<std::vector<TokenRow>> ListTokens() = 0;  // newest first

  virtual absl::StatusOr<StoreStatistics> Statistics() = 0;
  // Those that lists have left out since the store was opened, a thousand at most.
  virtual std::vector<UnreadableRow> UnreadableRows() const = 0;
  // Adds one whose content the caller cannot make sense of.
  virtual void NoteUnreadable(const UnreadableRow& row) = 0;

  // The configs of a key that were ok when they were searched last, the fastest first.
  virtual absl::StatusOr<std::vector<lookup::TimedConfig>> FastestOfKey(const TrialKey& key,
                                                                        uint32_t limit) = 0;
};

}  // namespace tune::db
