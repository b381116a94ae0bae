// SPDX-License-Identifier: Apache-2.0
// Jobs in the store, and those that older stores had as sweeps and gate runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/types/span.h"
#include "db/migrations.h"
#include "db/statement.h"
#include "db/store.h"
#include "tests/db/rows_to_store.h"

namespace tune::db {
namespace {

using testing::ElementsAre;

TEST_F(StoreTest, JobsComeBackWholeAndAreListedNewestFirst) {
  Store& store = Reopen();
  JobRow job{.kind = JobKind::kProfile,
             .priority = JobPriority::kBackground,
             .owner = "uid 7",
             .subject = "softmax",
             .device_id = "cuda:1",
             .message = "waiting",
             .created_unix_ms = 5};
  job.id = store.AddJob(job).value();
  const int64_t other = store.AddJob({.kind = JobKind::kBench, .state = JobState::kDone}).value();
  job.state = JobState::kRunning;
  job.device_id = "cuda:0";
  job.started_unix_ms = 6;
  job.deaths = 1;
  ASSERT_TRUE(store.UpdateJob(job).ok());
  const JobRow read = Reopen().GetJob(job.id).value();
  EXPECT_EQ(read.kind, JobKind::kProfile);
  EXPECT_EQ(read.state, JobState::kRunning);
  EXPECT_EQ(read.priority, JobPriority::kBackground);
  EXPECT_EQ(read.owner, "uid 7");
  EXPECT_EQ(read.subject, "softmax");
  EXPECT_EQ(read.device_id, "cuda:0");
  EXPECT_EQ(read.created_unix_ms, 5);
  EXPECT_EQ(read.started_unix_ms, 6);
  EXPECT_EQ(read.deaths, 1u);
  const auto ids = [&](const JobFilter& filter) {
    std::vector<int64_t> found;
    const std::vector<JobRow> rows = store_->ListJobs(filter).value();
    for (const JobRow& row : rows) found.push_back(row.id);
    return found;
  };
  EXPECT_THAT(ids({}), ElementsAre(other, job.id));
  EXPECT_THAT(ids({.unfinished = true}), ElementsAre(job.id));
  EXPECT_THAT(ids({.kind = JobKind::kBench}), ElementsAre(other));
  EXPECT_THAT(ids({.limit = 1}), ElementsAre(other));
  EXPECT_TRUE(absl::IsNotFound(store_->GetJob(99).status()));
  job.id = 99;
  EXPECT_TRUE(absl::IsNotFound(store_->UpdateJob(job)));
}

TEST_F(StoreTest, ARequestIsKeptUntilItsJobHasEndedAndAnEndForGood) {
  Store& store = Reopen();
  const std::string request("a\0b", 3);
  JobRow job{.kind = JobKind::kBench, .owner = "alice"};
  job.id = store.AddJob(job, request).value();
  EXPECT_EQ(store.JobRequest(job.id).value(), request);
  job.state = JobState::kRunning;
  ASSERT_TRUE(store.UpdateJob(job).ok());
  EXPECT_EQ(Reopen().JobRequest(job.id).value(), request);
  EXPECT_EQ(store_->JobEnd(job.id).value(), "");
  ASSERT_TRUE(store_->PutJobEnd(job.id, request).ok());
  ASSERT_TRUE(store_->PutJobEnd(job.id, "another").ok());
  job.state = JobState::kDone;
  ASSERT_TRUE(store_->UpdateJob(job).ok());
  EXPECT_EQ(Reopen().JobRequest(job.id).value(), "");
  EXPECT_EQ(store_->JobEnd(job.id).value(), request) << "the first counts";
}

TEST_F(StoreTest, ASweepsJobComesBackWhole) {
  Store& store = OpenWithSweep();
  JobRow expected = MakeSweepRow("k1").job;
  expected.id = sweep_.job.id;
  const JobRow actual = store.GetSweep(sweep_.id).value().job;
  EXPECT_EQ(actual.kind, expected.kind);
  EXPECT_EQ(actual.state, expected.state);
  EXPECT_EQ(actual.priority, expected.priority);
  EXPECT_EQ(actual.owner, expected.owner);
  EXPECT_EQ(actual.subject, expected.subject);
  EXPECT_EQ(actual.device_id, expected.device_id);
  EXPECT_EQ(actual.message, expected.message);
  EXPECT_EQ(actual.created_unix_ms, expected.created_unix_ms);
  EXPECT_EQ(actual.started_unix_ms, expected.started_unix_ms);
  EXPECT_EQ(actual.finished_unix_ms, expected.finished_unix_ms);
}

// Sweeps and gate runs of an earlier schema become jobs.
TEST_F(StoreTest, MigrationKeepsSweepsAndGateRunsAsJobs) {
  {
    auto connection = Connection::Open(path(), Connection::Mode::kReadWriteCreate).value();
    const absl::Span<const absl::string_view> steps = SchemaSteps();
    ASSERT_TRUE(Migrate(*connection, path(), steps.subspan(0, 6)).ok());
    const absl::Status filled = connection->Execute(
        "INSERT INTO kernel VALUES ('k', 'softmax', 's', 't');"
        "INSERT INTO sweep (kernel_hash, dims, dtype, device_id, device_name, target, strategy, "
        "budget_trials, budget_seconds, seed, cache_mode, fresh, idempotency_key, state, message, "
        "created_unix_ms, finished_unix_ms, tie_trial_ids, summary, deaths) VALUES "
        "('k', '{\"rows\":1}', 'f32', 'cuda:1', 'H200', 'sm_90a', 'auto', 1, 0, 0, 1, 0, NULL, "
        "3, 'well', 30, 40, '[]', '', 1), "
        "('k', '{\"rows\":1}', 'f32', 'cpu', 'a cpu', 'cpu', 'auto', 1, 0, 0, 1, 0, NULL, "
        "1, '', 10, 0, '[]', '', 0);"
        "INSERT INTO gate_run (kind, state, message, device_id, device_name, device_uuid, target, "
        "driver, compiler, cache_mode, base_label, head_label, delta0, delta_max, alpha, "
        "screen_rounds, guarded_deviation_max, clock_difference_max, seed, started_unix_ms, "
        "finished_unix_ms) VALUES (1, 3, 'lost', 'cuda:0', 'H200', 'u', 'sm_90a', 'd', 'c', 1, "
        "'main', 'topic', 0.01, 0.05, 0.01, 5, 1, 1, 0, 20, 25);");
    ASSERT_TRUE(filled.ok()) << filled;
  }
  Store& store = Reopen();
  const SweepRow done = store.GetSweep(1).value();
  EXPECT_EQ(done.job.id, 3) << "in the order in which they were asked for";
  EXPECT_EQ(done.job.state, JobState::kDone);
  EXPECT_EQ(done.job.message, "well");
  EXPECT_EQ(done.job.device_id, "cuda:1");
  EXPECT_EQ(done.job.created_unix_ms, 30);
  EXPECT_EQ(done.job.finished_unix_ms, 40);
  EXPECT_EQ(done.job.deaths, 1u);
  EXPECT_EQ(done.job.subject, "softmax");
  const std::vector<SweepRow> left = store.UnfinishedSweeps().value();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].job.id, 1);
  const GateRunRow run = store.GetGateRun(1).value();
  EXPECT_EQ(run.job.id, 2);
  EXPECT_EQ(run.job.kind, JobKind::kGate);
  EXPECT_EQ(run.job.state, JobState::kFailed) << "3 was failed";
  EXPECT_EQ(run.job.message, "lost");
  EXPECT_EQ(run.job.subject, "main topic");
  EXPECT_EQ(run.job.started_unix_ms, 20);
  EXPECT_EQ(run.base_label, "main");
  EXPECT_EQ(store.ListJobs({}).value().size(), 3u);
}

}  // namespace
}  // namespace tune::db
