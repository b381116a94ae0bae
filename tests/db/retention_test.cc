// SPDX-License-Identifier: Apache-2.0
#include "db/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "db/sqlite_connection.h"
#include "tests/db/rows_to_store.h"

namespace tune::db {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

class RetentionTest : public StoreTest {
 protected:
  RetentionTest() { Reopen(); }

  // A finished sweep of a kernel of its own, with so many trials of these messages.
  SweepRow Sweep(const std::string& owner, const std::string& hash, int trials,
                 const std::string& message = "") {
    EXPECT_TRUE(store_->KeepKernel(owner, MakeKernelRow(hash), 1 << 20).ok());
    SweepRow sweep = MakeSweepRow(hash);
    sweep.job.owner = owner;
    sweep.job.state = JobState::kDone;
    sweep.idempotency_key.clear();
    sweep.fresh = false;
    sweep = store_->AddSweep(sweep).value();
    for (int i = 0; i < trials; ++i) {
      Trial trial = MakeTrial(sweep.id, 64 + i);
      trial.message = message;
      sweep.best_trial_id = store_->AppendTrial(trial, MakeTrialKey(hash)).value();
    }
    EXPECT_TRUE(store_->UpdateSweep(sweep).ok());
    return sweep;
  }
  uint64_t ResultBytes(const std::string& owner) {
    return store_->StoredBy(owner).value().result_bytes;
  }
  Pruned PruneAll(PruneFilter filter) {
    Pruned all;
    int64_t last = 0;
    while (true) {
      const absl::StatusOr<Pruned> some = store_->Prune(filter, last);
      EXPECT_TRUE(some.ok()) << some.status();
      if (!some.ok()) return all;
      last = some->last_job_id;
      all.jobs += some->jobs;
      all.trials += some->trials;
      all.bytes += some->bytes;
      if (last == 0) return all;
    }
  }
};

TEST_F(RetentionTest, StoredBytesAreCountedForTheOwner) {
  EXPECT_EQ(ResultBytes("alice"), 0u);
  Sweep("alice", "k1", 1);
  const uint64_t one = ResultBytes("alice");
  Sweep("alice", "k1", 11, std::string(5000, 'x'));
  EXPECT_GT(ResultBytes("alice"), one + 11 * 5000);
  EXPECT_LT(ResultBytes("alice"), one + 11 * 8000);
  EXPECT_EQ(ResultBytes("bob"), 0u);
  Sweep("bob", "k1", 1);
  EXPECT_EQ(ResultBytes("bob"), one);
  const std::vector<StoredBytes> most = store_->StoredMost(10).value();
  ASSERT_EQ(most.size(), 2u);
  EXPECT_EQ(most[0].owner, "alice");
  EXPECT_EQ(most[0].kernel_bytes, most[1].kernel_bytes);
  EXPECT_GT(most[0].kernel_bytes, 0u);
}

TEST_F(RetentionTest, PruningGivesBackWhatAnOwnersJobsStored) {
  Sweep("mallory", "m1", 30, std::string(5000, 'x'));
  Sweep("mallory", "m2", 30, std::string(5000, 'y'));
  const SweepRow kept = Sweep("alice", "k1", 3);
  const uint64_t of_alice = ResultBytes("alice");

  const PruneFilter filter{.owner = "mallory", .before_unix_ms = kForever, .dry_run = true};
  const Pruned would = PruneAll(filter);
  EXPECT_EQ(would.jobs, 2u);
  EXPECT_EQ(would.trials, 60u);
  EXPECT_GT(would.bytes, 60u * 5000);
  EXPECT_GT(ResultBytes("mallory"), 60u * 5000) << "a dry run removes nothing";

  const Pruned pruned = PruneAll({.owner = "mallory", .before_unix_ms = kForever});
  EXPECT_EQ(pruned.jobs, would.jobs);
  EXPECT_EQ(pruned.trials, would.trials);
  EXPECT_EQ(pruned.bytes, would.bytes);
  EXPECT_LT(ResultBytes("mallory"), 2000u) << "the jobs themselves stay";
  EXPECT_EQ(store_->StoredBy("mallory").value().kernel_bytes, 0u);
  EXPECT_TRUE(absl::IsNotFound(store_->GetKernel("m1").status()));
  EXPECT_EQ(store_->ListJobs({}).value().size(), 3u);
  EXPECT_EQ(ResultBytes("alice"), of_alice);
  EXPECT_EQ(store_->TrialsOfSweep(kept.id).value().size(), 3u);
  EXPECT_EQ(store_->Statistics().value().trial_count, 3u);
  // Storing the same sources again works as the first time.
  Sweep("mallory", "m1", 1);
  EXPECT_EQ(store_->GetKernel("m1").value().files, MakeKernelRow("m1").files);
}

TEST_F(RetentionTest, OnlyJobsThatEndedBeforeATimeArePruned) {
  const SweepRow old = Sweep("alice", "k1", 2);
  SweepRow running = MakeSweepRow("k1");
  running.job.owner = "alice";
  running.idempotency_key.clear();
  running = store_->AddSweep(running).value();
  ASSERT_TRUE(store_->AppendTrial(MakeTrial(running.id), MakeTrialKey("k1")).ok());
  Sweep("alice", "k1", 1);
  EXPECT_EQ(PruneAll({.before_unix_ms = old.job.finished_unix_ms}).jobs, 0u);
  const Pruned pruned = PruneAll({.before_unix_ms = old.job.finished_unix_ms + 1});
  EXPECT_EQ(pruned.jobs, 1u) << "neither the one that runs nor the newest, whose number is next";
  EXPECT_TRUE(absl::IsNotFound(store_->GetSweep(old.id).status()));
  EXPECT_TRUE(store_->GetSweep(running.id).ok());
}

TEST_F(RetentionTest, PruningKeepsTheEvidenceOfARecord) {
  SweepRow sweep = Sweep("alice", "k1", 5);
  const std::vector<Trial> trials = store_->TrialsOfSweep(sweep.id).value();
  sweep.default_trial_id = trials[1].id;
  sweep.tie_trial_ids = {trials[2].id};
  ASSERT_TRUE(store_->UpdateSweep(sweep).ok());
  Trial confirmed = MakeTrial(sweep.id, 64);
  confirmed.purpose = TrialPurpose::kConfirm;
  confirmed.id = store_->AppendTrial(confirmed, MakeTrialKey("k1")).value();
  lookup::Record record{.key = MakeTrialKey("k1"), .trial = confirmed};
  const absl::Status published = store_->PublishRecord(record).status();
  ASSERT_TRUE(published.ok()) << published;
  Sweep("bob", "k1", 1);

  EXPECT_EQ(PruneAll({.owner = "alice", .before_unix_ms = kForever}).trials, 2u);
  std::vector<int64_t> left;
  const std::vector<Trial> trials_left = store_->TrialsOfSweep(sweep.id).value();
  for (const Trial& trial : trials_left) left.push_back(trial.id);
  EXPECT_THAT(left, ElementsAre(trials[1].id, trials[2].id, trials[4].id, confirmed.id))
      << "the default, tie and best of the sweep that a record is of, and the record's own";
  EXPECT_EQ(store_->CurrentRecords().value().size(), 1u);
  EXPECT_EQ(store_->GetKernel("k1").value().files, MakeKernelRow("k1").files);
}

TEST_F(RetentionTest, PruningKeepsATrialThatAnotherSweepReused) {
  const SweepRow first = Sweep("alice", "k1", 2);
  SweepRow second = Sweep("bob", "k1", 1);
  second.best_trial_id = first.best_trial_id;  // it was reused
  ASSERT_TRUE(store_->UpdateSweep(second).ok());
  EXPECT_EQ(PruneAll({.owner = "alice", .before_unix_ms = kForever}).trials, 1u);
  EXPECT_TRUE(store_->GetTrial(first.best_trial_id).ok());
  EXPECT_TRUE(store_->GetSweep(first.id).ok());
}

TEST_F(RetentionTest, ProfilesCountForWhoAskedAndArePrunedWithTheirJob) {
  const SweepRow sweep = Sweep("alice", "k1", 1);
  const uint64_t of_alice = ResultBytes("alice");
  JobRow job{.kind = JobKind::kProfile, .state = JobState::kDone, .owner = "mallory"};
  job.id = store_->AddJob(job).value();
  const uint64_t without = ResultBytes("mallory");
  ProfileRow row{.key = MakeTrialKey("k1"), .kernel_name = "softmax", .job_id = job.id};
  row.profile.trial_id = sweep.best_trial_id;
  row.profile.notes = {std::string(5000, 'x')};
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(store_->AppendProfile(row).ok());
  EXPECT_GT(ResultBytes("mallory"), without + 3 * 5000);
  EXPECT_EQ(ResultBytes("alice"), of_alice) << "whose trial it is of";
  EXPECT_THAT(RunSql(path(), "DELETE FROM profile"), HasSubstr("append-only"));

  const Pruned pruned = PruneAll({.owner = "mallory", .before_unix_ms = kForever});
  EXPECT_EQ(pruned.jobs, 1u);
  EXPECT_GT(pruned.bytes, 3u * 5000);
  EXPECT_TRUE(store_->ListProfiles({}).value().empty());
  EXPECT_TRUE(store_->GetTrial(sweep.best_trial_id).ok());
  EXPECT_EQ(PruneAll({.owner = "mallory", .before_unix_ms = kForever}).jobs, 0u);
}

TEST_F(RetentionTest, LegsCountForTheJobsOwnerAndArePrunedWithIt) {
  Sweep("alice", "k1", 1);
  std::vector<int64_t> kernels;
  std::vector<int64_t> compared;
  for (const char* owner : {"bob", "mallory"}) {  // the newest run of each kind stays
    JobRow job{.kind = JobKind::kGate, .state = JobState::kDone, .owner = owner};
    job.id = store_->AddJob(job).value();
    const int64_t run = store_->AddGateRun({.job = job}).value();
    kernels.push_back(store_->AddGateKernel({.run_id = run, .head_kernel_hash = "k1"}).value());
    LegRow leg{
        .job_id = job.id, .gate_kernel_id = kernels.back(), .message = std::string(500, 'x')};
    ASSERT_TRUE(store_->AppendGateLegs({leg, leg}).ok());
    job.kind = JobKind::kComparison;
    job.id = store_->AddJob(job).value();
    const int64_t comparison = store_->AddComparison({.job = job}).value();
    compared.push_back(store_->AddCompared({.comparison_id = comparison}).value());
    leg = {.job_id = job.id,
           .compared_id = compared.back(),
           .purpose = LegPurpose::kComparison,
           .leg = {.revision = gate::Revision::kNone, .samples_ns = std::vector<double>(100, 1.0)}};
    ASSERT_TRUE(store_->AppendGateLegs({leg}).ok());
  }
  EXPECT_GT(ResultBytes("bob"), 2 * 500u + 800u);
  EXPECT_EQ(ResultBytes("bob"), ResultBytes("mallory"));

  EXPECT_GT(PruneAll({.before_unix_ms = kForever}).bytes, 2 * 500u + 800u);
  EXPECT_TRUE(store_->GateLegs(kernels[0])->empty());
  EXPECT_TRUE(store_->ComparisonLegs(compared[0])->empty());
  EXPECT_LT(ResultBytes("bob"), 1000u) << "the jobs' own rows";
  EXPECT_EQ(store_->GateLegs(kernels[1])->size(), 2u);
  EXPECT_EQ(store_->ComparisonLegs(compared[1])->size(), 1u);
}

// The tables whose rows no trigger counts, and why that is no way to store without a quota.
const std::map<std::string, std::string> kNotCounted = {
    {"kernel", "kernel_owner counts its spec"},
    {"kernel_file", "kernel_owner counts it"},
    {"trial_key", "one for each problem of a sweep or profile, whose rows count its texts"},
    {"record", "one for each confirmed trial, which counts 400 bytes"},
    {"withdrawn_record", "written by a migration alone"},
    {"job_request", "removed once the job has ended; Scheduler::kSourceBytesMax bounds the rest"},
    {"ceiling_measurement", "the daemon's own probes: none of its texts is a caller's"},
    {"calibration", "the daemon's own kernels: none of its texts is a caller's"},
    {"calibration_entry", "as calibration"},
    {"baseline", "operators'"},
    {"token", "operators'"},
    {"stored", "the counts themselves: a row for each owner"},
    {"removed", "one row"},
    {"pruned_job", "empty but while jobs are pruned"},
};

TEST_F(RetentionTest, EveryTableIsCountedOrHasAReasonNotToBe) {
  if (PostgresForTests() != nullptr) GTEST_SKIP() << "of files";
  auto connection = SqliteConnection::Open(path(), SqliteConnection::Mode::kReadOnly).value();
  Statement tables = connection->Prepare(
      "SELECT name, (SELECT group_concat(sql, char(10)) FROM sqlite_schema AS inside "
      "WHERE inside.type = 'trigger' AND inside.tbl_name = outside.name "
      "AND sql LIKE '%INSERT ON %' AND (sql LIKE '%UPDATE stored%' OR sql LIKE '%INTO stored%')), "
      "(SELECT count(*) FROM sqlite_schema AS inside WHERE inside.type = 'trigger' "
      "AND inside.tbl_name = outside.name AND sql LIKE '%DELETE ON %UPDATE stored%') "
      "FROM sqlite_schema AS outside WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
  std::map<std::string, std::string> reasons = kNotCounted;
  while (tables.Step().value()) {
    std::string table;
    std::string counting;
    int64_t given_back = 0;
    tables.Read(table, counting, given_back);
    if (reasons.erase(table) > 0) {
      EXPECT_EQ(counting, "") << table << " is counted: it is no exception";
      continue;
    }
    EXPECT_NE(counting, "") << table << " is in no quota: count it, or say why not";
    // Jobs are kept for ever.
    EXPECT_TRUE(given_back > 0 || table == "job") << table << " is not given back when it goes";
  }
  EXPECT_THAT(reasons, IsEmpty()) << "no such tables";
}

TEST_F(RetentionTest, MessagesOfGatesAndComparisonsCountAndArePrunedWithTheirSources) {
  Sweep("alice", "k1", 1);
  const std::string long_text(5000, 'x');
  for (const char* owner : {"mallory", "alice"}) {  // the newest run of each kind stays
    const auto keep = [&](const std::string& hash) {
      const absl::Status kept = store_->KeepKernel(owner, MakeKernelRow(hash), 1 << 20);
      EXPECT_TRUE(kept.ok()) << kept;
      return hash;
    };
    const uint64_t before = ResultBytes(owner);
    JobRow job{.kind = JobKind::kGate, .state = JobState::kDone, .owner = owner};
    job.id = store_->AddJob(job).value();
    const int64_t run = store_->AddGateRun({.job = job, .head_label = long_text}).value();
    const int64_t kernel =
        store_
            ->AddGateKernel({.run_id = run,
                             .base_kernel_hash = keep(absl::StrCat("base of ", owner)),
                             .head_kernel_hash = keep(absl::StrCat("head of ", owner)),
                             .fault = long_text})
            .value();
    GateVerdictRow verdict{.gate_kernel_id = kernel};
    verdict.judgement.reason = long_text;
    ASSERT_TRUE(store_->AddGateVerdicts({verdict}).ok());
    EXPECT_GT(ResultBytes(owner), before + 3 * 5000);
    job.kind = JobKind::kComparison;
    job.id = store_->AddJob(job).value();
    const int64_t comparison = store_->AddComparison({.job = job}).value();
    ComparedRow compared{.comparison_id = comparison,
                         .kernel_hash = keep(absl::StrCat("compared of ", owner)),
                         .message = long_text};
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(store_->AddCompared(compared).ok());
    EXPECT_GT(ResultBytes(owner), before + 7 * 5000);
  }
  EXPECT_THAT(RunSql(path(), "DELETE FROM gate_verdict"), HasSubstr("append-only"));
  EXPECT_THAT(RunSql(path(), "DELETE FROM gate_kernel"), HasSubstr("append-only"));
  EXPECT_THAT(RunSql(path(), "DELETE FROM compared"), HasSubstr("append-only"));

  const uint64_t of_alice = ResultBytes("alice");
  const Pruned pruned = PruneAll({.before_unix_ms = kForever});
  EXPECT_EQ(pruned.jobs, 2u);
  EXPECT_GT(pruned.bytes, 7u * 5000);
  EXPECT_LT(ResultBytes("mallory"), 1000u) << "the jobs' own rows";
  EXPECT_EQ(store_->StoredBy("mallory")->kernel_bytes, 0u);
  EXPECT_TRUE(absl::IsNotFound(store_->GetKernel("head of mallory").status()));
  EXPECT_EQ(ResultBytes("alice"), of_alice);
  EXPECT_EQ(store_->GateKernels(2)->size(), 1u);
  EXPECT_EQ(store_->ComparedOf(2)->size(), 4u);
  EXPECT_EQ(PruneAll({.before_unix_ms = kForever}).jobs, 0u) << "each job is pruned once";
}

TEST_F(RetentionTest, SourcesThatNoRowRefersToArePrunedOnceTheirSubmissionIsOver) {
  Sweep("alice", "used", 1);
  for (const char* hash : {"orphan 1", "orphan 2"}) {
    ASSERT_TRUE(store_->KeepKernel("mallory", MakeKernelRow(hash), 1 << 20).ok());
  }
  const PruneFilter filter{.owner = "mallory", .before_unix_ms = kForever};
  EXPECT_EQ(PruneAll(filter).bytes, 0u) << "their jobs may be about to be stored";
  ASSERT_EQ(RunSql(path(), "UPDATE kernel_owner SET kept_unix_ms = (unixepoch() - 7200) * 1000"),
            "");
  EXPECT_EQ(PruneAll({.owner = "bob", .before_unix_ms = kForever}).bytes, 0u);

  JobRow job{.kind = JobKind::kGate, .state = JobState::kQueued, .owner = "mallory"};
  job.created_unix_ms = absl::ToUnixMillis(absl::Now() - absl::Minutes(119));
  job.id = store_->AddJob(job).value();
  EXPECT_EQ(PruneAll(filter).bytes, 0u) << "the job waits and will need them";
  EXPECT_TRUE(store_->GetKernel("orphan 1").ok());
  job.state = JobState::kFailed;
  ASSERT_TRUE(store_->UpdateJob(job).ok());

  EXPECT_GT(PruneAll(filter).bytes, 0u);
  EXPECT_EQ(store_->StoredBy("mallory")->kernel_bytes, 0u);
  EXPECT_TRUE(absl::IsNotFound(store_->GetKernel("orphan 1").status()));
  EXPECT_TRUE(store_->GetKernel("used").ok());
}

TEST_F(RetentionTest, NothingElseDeletesEvidence) {
  Sweep("alice", "k1", 2);
  Sweep("bob", "k1", 1);
  EXPECT_THAT(RunSql(path(), "DELETE FROM trial"), HasSubstr("append-only"));
  EXPECT_THAT(RunSql(path(), "DELETE FROM trial_key"), HasSubstr("append-only"));
  EXPECT_THAT(RunSql(path(), "DELETE FROM kernel_file"), HasSubstr("immutable"));
  EXPECT_THAT(RunSql(path(), "DELETE FROM kernel"), HasSubstr("immutable"));
  EXPECT_THAT(RunSql(path(), "DELETE FROM job"), HasSubstr("kept"));
}

}  // namespace
}  // namespace tune::db
