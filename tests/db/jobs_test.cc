// SPDX-License-Identifier: Apache-2.0
// Jobs in the store, and those that older stores had as sweeps and gate runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/types/span.h"
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
  EXPECT_THAT(ids({.before_id = other}), ElementsAre(job.id));
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

}  // namespace
}  // namespace tune::db
