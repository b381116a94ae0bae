// SPDX-License-Identifier: Apache-2.0
// Which trials are records: confirmed ones, each once, with the end of their sweep or not at all.
#include <atomic>
#include <cerrno>
#include <string>
#include <vector>

#include "db/migrations.h"
#include "db/sqlite_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/db/faulty_disk.h"
#include "tests/db/rows_to_store.h"

namespace tune::db {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class RecordsTest : public StoreTest {
 protected:
  ~RecordsTest() override {
    disk_.Release();
    store_.reset();  // before the disk
  }
  // REQUIRES: the store is closed.
  void Execute(const std::string& sql) { ASSERT_EQ(RunSql(path(), sql), ""); }
  lookup::Record Measured(const Trial& trial, const TrialKey& key = MakeTrialKey("k1")) {
    lookup::Record record{.key = key, .trial = trial};
    record.trial.id = store_->AppendTrial(trial, key).value();
    return record;
  }

  FaultyDisk disk_;
};

TEST_F(RecordsTest, ARecordIsOfAnOkConfirmedTrialUnderItsOwnKey) {
  Store& store = OpenWithSweep();
  const TrialKey key = MakeTrialKey("k1");
  Trial trial = MakeConfirmed(sweep_.id);
  EXPECT_TRUE(absl::IsNotFound(store.PublishRecord({.key = key, .trial = trial}).status()));
  trial.outcome = Outcome::kWrongResult;
  trial.id = store.AppendTrial(trial, key).value();
  EXPECT_TRUE(absl::IsInvalidArgument(store.PublishRecord({.key = key, .trial = trial}).status()));
  trial.outcome = Outcome::kOk;
  trial.id = store.AppendTrial(trial, key).value();
  Trial searched = MakeTrial(sweep_.id);
  searched.id = store.AppendTrial(searched, key).value();
  EXPECT_TRUE(
      absl::IsInvalidArgument(store.PublishRecord({.key = key, .trial = searched}).status()));
  TrialKey other = key;
  other.compiler = "another";
  EXPECT_TRUE(
      absl::IsInvalidArgument(store.PublishRecord({.key = other, .trial = trial}).status()));
}

TEST_F(RecordsTest, RecordsAreRebuiltFromFinishedSweeps) {
  Store& store = OpenWithSweep();
  const TrialKey key = MakeTrialKey("k1");
  sweep_.best_trial_id = store.AppendTrial(MakeConfirmed(sweep_.id, 32), key).value();
  sweep_.default_trial_id = store.AppendTrial(MakeConfirmed(sweep_.id, 8), key).value();
  sweep_.tie_trial_ids = {sweep_.default_trial_id};
  ASSERT_TRUE(store.UpdateSweep(sweep_).ok());
  EXPECT_EQ(store.RebuildRecords().value(), 0) << "the sweep still runs";
  sweep_.job.state = JobState::kDone;
  ASSERT_TRUE(store.UpdateSweep(sweep_).ok());
  EXPECT_EQ(store.RebuildRecords().value(), 1);
  EXPECT_EQ(store.RebuildRecords().value(), 0) << "nothing is published twice";

  std::vector<lookup::Record> records = store.CurrentRecords().value();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].trial.id, sweep_.best_trial_id);
  EXPECT_EQ(records[0].default_latency_ns, 1000.125);
  EXPECT_EQ(records[0].tie_count, 1u);
  EXPECT_EQ(records[0].published_unix_ms, sweep_.job.finished_unix_ms);
  EXPECT_EQ(records[0].seed, sweep_.seed);
  ASSERT_EQ(records[0].ties.size(), 1u);
  EXPECT_EQ(records[0].ties[0].config, MakeConfig(8));
  EXPECT_EQ(records[0].ties[0].latency_ns_median, 1000.125);

  store_.reset();
  Execute("DELETE FROM record");
  EXPECT_EQ(Reopen().RebuildRecords().value(), 1);
}

// It goes on being the sweep's best for people, and it is nobody's record.
TEST_F(RecordsTest, ARestartDoesNotPublishAnUnconfirmedBest) {
  Store& store = OpenWithSweep();
  const lookup::Record confirmed = Measured(MakeConfirmed(sweep_.id, 8));
  ASSERT_TRUE(store.PublishRecord(confirmed).ok());
  SweepRow later = MakeSweepRow("k1");
  later.idempotency_key.clear();
  later = store.AddSweep(later).value();
  later.best_trial_id = Measured(MakeTrial(later.id, 4)).trial.id;
  later.job.state = JobState::kDone;
  ASSERT_TRUE(store.UpdateSweep(later).ok());
  for (int restart = 0; restart < 3; ++restart) {
    EXPECT_EQ(Reopen().RebuildRecords().value(), 0);
    ASSERT_EQ(store_->CurrentRecords()->size(), 1u);
    EXPECT_EQ(store_->CurrentRecords()->front().trial.id, confirmed.trial.id);
    EXPECT_EQ(store_->Statistics()->record_count, 1u);
  }
}

// A sweep may end with the trial of an earlier one as its best: that is not its own confirmation.
TEST_F(RecordsTest, TheTrialOfAnotherSweepIsNotPublishedForThisOne) {
  Store& store = OpenWithSweep();
  const lookup::Record earlier = Measured(MakeConfirmed(sweep_.id, 8));
  SweepRow later = MakeSweepRow("k1");
  later.idempotency_key.clear();
  later = store.AddSweep(later).value();
  later.best_trial_id = earlier.trial.id;
  later.job.state = JobState::kDone;
  ASSERT_TRUE(store.UpdateSweep(later).ok());
  EXPECT_EQ(Reopen().RebuildRecords().value(), 0);
}

TEST_F(RecordsTest, ATrialIsPublishedOnce) {
  Store& store = OpenWithSweep();
  const lookup::Record record = Measured(MakeConfirmed(sweep_.id));
  const int64_t id = store.PublishRecord(record).value();
  EXPECT_EQ(store.PublishRecord(record).value(), id);
  EXPECT_EQ(store.Statistics()->record_count, 1u);
}

TEST_F(RecordsTest, ASweepIsDoneWithItsRecordOrNeither) {
  if (PostgresForTests() != nullptr) GTEST_SKIP() << "the disk is the server's";
  Store& store = OpenWithSweep();
  const lookup::Record record = Measured(MakeConfirmed(sweep_.id));
  SweepRow done = sweep_;
  done.best_trial_id = record.trial.id;
  done.job.state = JobState::kDone;
  for (std::atomic<int>* const fault : {&disk_.write_error, &disk_.sync_error}) {
    *fault = fault == &disk_.write_error ? ENOSPC : EIO;
    EXPECT_FALSE(store.PublishRecord(record, &done).ok());
    EXPECT_EQ(store.GetSweep(sweep_.id)->job.state, JobState::kRunning);
    EXPECT_THAT(store.CurrentRecords().value(), IsEmpty());
    *fault = 0;
  }
  SweepRow of_another = done;
  of_another.id = 99;
  EXPECT_TRUE(absl::IsNotFound(store.PublishRecord(record, &of_another).status()));
  EXPECT_THAT(store.CurrentRecords().value(), IsEmpty());
  ASSERT_TRUE(store.PublishRecord(record, &done).ok());
  EXPECT_EQ(Reopen().GetSweep(sweep_.id)->job.state, JobState::kDone);
  EXPECT_EQ(store_->CurrentRecords()->size(), 1u);
}

TEST_F(RecordsTest, RecordsOfOtherHeadersDisplaceNone) {
  Store& store = OpenWithSweep();
  std::vector<std::string> digests;
  for (const char* digest : {"", "a", "b", "a"}) {
    TrialKey key = MakeTrialKey("k1");
    key.include_digest = digest;
    ASSERT_TRUE(store.PublishRecord(Measured(MakeConfirmed(sweep_.id), key)).ok());
  }
  const std::vector<lookup::Record> records = Reopen().CurrentRecords().value();
  for (const lookup::Record& record : records) digests.push_back(record.key.include_digest);
  EXPECT_THAT(digests, ElementsAre("", "b", "a"));
  EXPECT_EQ(store_->Statistics()->record_count, 3u);
}

TEST_F(RecordsTest, TheTimeThatASweepSpentIsNotedWhileItRuns) {
  Store& store = OpenWithSweep();
  ASSERT_TRUE(store.NoteSpent(sweep_.id, 7.5).ok());
  const SweepRow row = Reopen().GetSweep(sweep_.id).value();
  EXPECT_EQ(row.spent_seconds, 7.5);
  EXPECT_EQ(row.job.state, sweep_.job.state);
  EXPECT_TRUE(absl::IsNotFound(store_->NoteSpent(99, 1)));
}

constexpr char kBeforeVersion15[] = R"(
INSERT INTO kernel VALUES ('h', 'k', 's', 't');
INSERT INTO job VALUES (1, 1, 3, 1, 'alice', 'k', 'cpu', '', 1, 0, 2, 0);
INSERT INTO sweep (id, job_id, kernel_hash, dims, dtype, device_name, target, strategy,
                   budget_trials, budget_seconds, seed, cache_mode, fresh, tie_trial_ids, summary)
VALUES (1, 1, 'h', '{}', 'f32', 'cpu:x', 'cpu', 'random', 1, 0, 0, 1, 0, '[]', '{}');
INSERT INTO trial_key VALUES (1, 'h', '{}', 'f32', 'cpu:x', 'cpu', 1, 'driver', 'compiler');
INSERT INTO trial (id, sweep_id, key_id, purpose, config, outcome, message, finished_unix_ms,
                   latency_ns_median, latency_ns_low, latency_ns_high, latency_ns_min,
                   latency_ns_mean, clock, stopped_early, registers, spill_bytes, stack_bytes,
                   static_shared_bytes, dynamic_shared_bytes, binary_bytes, binary_sha256,
                   sm_clock_mhz, memory_clock_mhz, power_mw, temperature_c, throttle_reasons,
                   error_bad_elements, error_worst, compile_cached, samples_ns)
VALUES
  (1, 1, 1, 1, '{"BLOCK":1}', 1, '', 1, 100, 90, 110, 90, 100, 3, 0, 0,
   0, 0, 0, 0, 0, 'a', 0, 0, 0, 0, 0, 0, '', 0, x''),
  (2, 1, 1, 2, '{"BLOCK":1}', 1, '', 1, 100, 90, 110, 90, 100, 3, 0, 0,
   0, 0, 0, 0, 0, 'a', 0, 0, 0, 0, 0, 0, '', 0, x''),
  (3, 1, 1, 1, '{"BLOCK":2}', 3, 'a.cu:3: error: no such name', 1, 100, 90, 110, 90, 100, 3, 0, 0,
   0, 0, 0, 0, 0, 'a', 0, 0, 0, 0, 0, 0, '', 0, x''),
  (4, 1, 1, 1, '{"BLOCK":3}', 3, 'the compiler was ended: why', 1, 100, 90, 110, 90, 100, 3, 0, 0,
   0, 0, 0, 0, 0, 'a', 0, 0, 0, 0, 0, 0, '', 0, x'');
INSERT INTO record (id, trial_id, default_latency_ns, tie_count, published_unix_ms, artifact)
VALUES (1, 2, 200, 0, 5, 'sha256:a'), (2, 1, 200, 0, 6, ''), (3, 1, 200, 0, 7, '');
)";

TEST_F(RecordsTest, UnconfirmedRecordsOfAnOlderDaemonAreWithdrawn) {
  if (PostgresForTests() != nullptr) GTEST_SKIP() << "of files";
  {
    auto connection =
        SqliteConnection::Open(path(), SqliteConnection::Mode::kReadWriteCreate).value();
    ASSERT_TRUE(Migrate(*connection, path(), SchemaSteps().first(1)).ok());
  }
  Execute(kBeforeVersion15);
  Store& store = Reopen();
  const std::vector<lookup::Record> records = store.CurrentRecords().value();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].id, 1);
  EXPECT_EQ(records[0].trial.id, 2);
  EXPECT_EQ(records[0].artifact, "sha256:a");
  EXPECT_EQ(records[0].key.driver, "driver");
  EXPECT_EQ(store.Statistics()->withdrawn_record_count, 2u);
  EXPECT_EQ(store.Statistics()->record_count, 1u);
  // The compiler's own word is known; a config that a limit ended is tried again.
  std::vector<int64_t> known;
  const std::vector<Trial> trials = store.TrialsOfKey(records[0].key).value();
  for (const Trial& trial : trials) known.push_back(trial.id);
  EXPECT_THAT(known, ElementsAre(1, 3));
  // The number of a record that was withdrawn is not given again.
  const Trial confirmed = store.GetTrial(2).value();
  EXPECT_EQ(store.PublishRecord(Measured(confirmed, records[0].key)).value(), 4);
  store_.reset();
  for (const char* sql :
       {"UPDATE trial SET message = ''", "DELETE FROM trial_key",
        "INSERT INTO trial_key VALUES (9, 'none', '', '', '', '', 1, '', '', '')",
        "INSERT INTO record (trial_id, tie_count, published_unix_ms) VALUES (99, 0, 0)"}) {
    EXPECT_NE(RunSql(path(), sql), "") << sql;
  }
  Execute("SELECT * FROM trial_view; SELECT * FROM current_record");
}

}  // namespace
}  // namespace tune::db
