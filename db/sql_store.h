// SPDX-License-Identifier: Apache-2.0
// The calls of a store in SQL, whichever engine runs it: SQLite (sqlite_store.h) or PostgreSQL
// (postgres_store.h). A call that writes runs on the writer's thread (writer.h), one that reads on
// a connection of its own (readers.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "db/readers.h"
#include "db/store.h"
#include "db/unreadable.h"
#include "db/writer.h"
#include "lookup/record.h"
#include "tuner/trial_key.h"

namespace tune::db {

// Thread-safe.
class SqlStore : public Store {
 public:
  // Without `writer` the store can only be read. `connect` opens a connection that reads.
  SqlStore(std::unique_ptr<Connection> writer, const Readers::Connect& connect,
           const StoreOptions& options);

  bool writable() const override { return writer_.writable(); }

  absl::Status PutKernel(const KernelRow& kernel) override;
  absl::StatusOr<KernelRow> GetKernel(const std::string& hash) override;
  absl::Status KeepKernel(const std::string& owner, const KernelRow& kernel,
                          uint64_t bytes_max) override;

  absl::StatusOr<int64_t> AddJob(const JobRow& job, const std::string& request) override;
  absl::Status UpdateJob(const JobRow& job) override;
  absl::StatusOr<std::string> JobRequest(int64_t id) override;
  absl::Status PutJobEnd(int64_t id, const std::string& event) override;
  absl::StatusOr<std::string> JobEnd(int64_t id) override;
  absl::StatusOr<JobRow> GetJob(int64_t id) override;
  absl::StatusOr<std::vector<JobRow>> ListJobs(const JobFilter& filter) override;

  absl::StatusOr<SweepRow> AddSweep(SweepRow sweep) override;
  absl::Status UpdateSweep(const SweepRow& sweep) override;
  absl::Status NoteSpent(int64_t sweep_id, double spent_seconds) override;
  absl::StatusOr<SweepRow> GetSweep(int64_t id) override;
  absl::StatusOr<SweepRow> SweepOfJob(int64_t job_id) override;
  absl::StatusOr<std::vector<SweepRow>> ListSweeps(uint32_t limit) override;
  absl::StatusOr<std::vector<SweepRow>> UnfinishedSweeps() override;

  absl::StatusOr<int64_t> AppendTrial(const Trial& trial, const TrialKey& key) override;
  absl::StatusOr<Trial> GetTrial(int64_t id) override;
  absl::StatusOr<TrialKey> KeyOfTrial(int64_t id) override;
  absl::StatusOr<std::vector<Trial>> TrialsOfSweep(int64_t sweep_id) override;
  absl::StatusOr<std::vector<TrialPoint>> PointsOfSweep(int64_t sweep_id, uint32_t limit) override;
  absl::StatusOr<std::vector<Trial>> TrialsAfter(int64_t sweep_id, int64_t trial_id,
                                                 uint32_t limit) override;
  absl::StatusOr<std::vector<Trial>> TrialsOfKey(const TrialKey& key, uint32_t limit) override;
  absl::StatusOr<std::vector<lookup::TimedConfig>> FastestOfKey(const TrialKey& key,
                                                                uint32_t limit) override;
  absl::StatusOr<std::vector<Trial>> TrialsKnownTo(const SweepRow& sweep, uint32_t limit) override;
  absl::StatusOr<std::vector<Trial>> NewestOfSweep(int64_t sweep_id, uint32_t limit) override;
  absl::StatusOr<std::vector<TrialKey>> TrialKeysOfKernel(const std::string& kernel_name,
                                                          uint32_t limit) override;

  absl::StatusOr<int64_t> PublishRecord(const lookup::Record& record,
                                        const SweepRow* done) override;
  absl::StatusOr<std::vector<lookup::Record>> CurrentRecords() override;
  absl::StatusOr<int64_t> RebuildRecords(int64_t after_sweep_id) override;
  absl::StatusOr<std::vector<lookup::Record>> RecordsAfter(int64_t record_id) override;
  absl::StatusOr<std::vector<lookup::Record>> NewestRecords(size_t count) override;
  absl::StatusOr<std::string> FingerprintOfRecords(int64_t record_id) override;
  absl::StatusOr<int64_t> SettledSweep() override;
  absl::StatusOr<std::vector<int64_t>> TrialIdsOf(int64_t sweep_id, int64_t after,
                                                  uint32_t limit) override;
  absl::StatusOr<std::vector<int64_t>> TrialIdsKnownTo(const SweepRow& sweep, int64_t after,
                                                       uint32_t limit) override;
  absl::StatusOr<std::vector<Trial>> TrialsWithIds(const std::vector<int64_t>& ids,
                                                   bool whole) override;
  absl::StatusOr<StoredBytes> StoredBy(const std::string& owner) override;
  absl::StatusOr<std::vector<StoredBytes>> StoredMost(uint32_t limit) override;
  absl::StatusOr<std::vector<std::string>> ArtifactsOf(const std::string& owner) override;
  absl::StatusOr<std::vector<std::string>> NameSpacesOf(const std::string& artifact) override;
  absl::Status SetArtifactBytes(const std::string& owner, uint64_t bytes) override;
  absl::StatusOr<Pruned> Prune(const PruneFilter& filter, int64_t after_job_id) override;

  absl::Status PutCeilings(const std::vector<CeilingRow>& ceilings) override;
  absl::StatusOr<std::vector<CeilingRow>> GetCeilings(const std::string& device_name,
                                                      const std::string& driver,
                                                      const std::string& uuid) override;

  absl::StatusOr<int64_t> AppendProfile(const ProfileRow& row) override;
  absl::StatusOr<std::vector<ProfileRow>> ListProfiles(const ProfileFilter& filter) override;

  absl::StatusOr<int64_t> AppendCalibration(const CalibrationRow& row) override;
  absl::StatusOr<CalibrationRow> LatestCalibration(const std::string& device_name,
                                                   const std::string& chip) override;

  absl::StatusOr<int64_t> AddGateRun(const GateRunRow& run) override;
  absl::StatusOr<GateRunRow> GetGateRun(int64_t id) override;
  absl::StatusOr<std::vector<GateRunRow>> ListGateRuns(uint32_t limit, int64_t before_id) override;
  absl::StatusOr<int64_t> AddGateKernel(const GateKernelRow& kernel) override;
  absl::StatusOr<std::vector<GateKernelRow>> GateKernels(int64_t run_id) override;
  absl::StatusOr<std::vector<GateKernelRow>> GateKernelsNamed(const std::string& name) override;
  absl::Status AddGateVerdicts(const std::vector<GateVerdictRow>& verdicts) override;
  absl::StatusOr<std::vector<GateVerdictRow>> GateVerdicts(int64_t run_id) override;
  absl::StatusOr<int64_t> AddComparison(const ComparisonRow& comparison) override;
  absl::StatusOr<ComparisonRow> GetComparison(int64_t id) override;
  absl::StatusOr<std::vector<ComparisonRow>> ListComparisons(uint32_t limit,
                                                             int64_t before_id) override;
  absl::StatusOr<int64_t> AddCompared(const ComparedRow& compared) override;
  absl::StatusOr<std::vector<ComparedRow>> ComparedOf(int64_t comparison_id) override;
  absl::Status AppendGateLegs(const std::vector<LegRow>& legs) override { return AppendLegs(legs); }
  absl::Status AppendComparisonLegs(const std::vector<LegRow>& legs) override {
    return AppendLegs(legs);
  }
  absl::StatusOr<std::vector<LegRow>> GateLegs(int64_t gate_kernel_id) override;
  absl::StatusOr<std::vector<LegRow>> ComparisonLegs(int64_t compared_id) override;

  absl::Status SetBaseline(const std::vector<KernelRow>& kernels,
                           const std::vector<BaselineRow>& rows) override;
  absl::StatusOr<std::vector<BaselineRow>> Baselines(uint32_t limit, const std::string& after_name,
                                                     const std::string& after_kernel) override;

  absl::StatusOr<int64_t> AddToken(const TokenRow& token) override;
  absl::Status UpdateToken(const TokenRow& token) override;
  absl::StatusOr<std::vector<TokenRow>> ListTokens() override;
  absl::Status RemoveTokens(int64_t ended_before_unix_ms) override;

  absl::StatusOr<StoreStatistics> Statistics() override;
  std::vector<UnreadableRow> UnreadableRows() const override { return unreadable_.rows(); }
  void NoteUnreadable(const UnreadableRow& row) override {
    unreadable_.Note(row.table, row.id, row.why);
  }

 protected:
  Writer& writer() { return writer_; }
  Readers& readers() { return readers_; }

 private:
  absl::Status AppendLegs(const std::vector<LegRow>& legs);
  // Counts the current records. Visits only those that are new since the last count.
  absl::StatusOr<int64_t> CountRecords(Connection& reader);

  Mutex count_mutex_;
  int64_t counted_ ABSL_GUARDED_BY(count_mutex_) = 0;
  int64_t counted_to_ ABSL_GUARDED_BY(count_mutex_) = 0;  // the record with this id
  // Destroyed from the last to the first: readers close before the writer's last checkpoint.
  const std::function<void(const Trial&)> stored_trial_;
  Writer writer_;
  Readers readers_;
  Readers statistics_readers_;  // so that a status does not wait for a report
  Unreadable unreadable_;
};

}  // namespace tune::db
