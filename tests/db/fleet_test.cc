// SPDX-License-Identifier: Apache-2.0
// Hosts that share a store: claims, leases that end, and what is refused after that.
#include <set>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/db/rows_to_store.h"

namespace tune::db {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class FleetStoreTest : public StoreTest {
 protected:
  void SetUp() override {
    if (PostgresForTests() == nullptr) GTEST_SKIP() << "no server; see tests/postgres.py";
    ASSERT_TRUE(Reopen().PutKernel(MakeKernelRow("k1")).ok());
    first_ = Joined(*store_, "a");
    other_ = Store::Open(path()).value();
    second_ = Joined(*other_, "b");
  }
  void TearDown() override { other_.reset(); }

  static int64_t Joined(Store& store, const std::string& name) {
    return store.fleet()
        ->Join({.name = name,
                .state_dir = "/state",
                .devices = R"({"cuda:3":"NVIDIA H200","cpu":"CPU"})",
                .joined_unix_ms = 1})
        .value();
  }
  // A sweep that waits at the first host.
  SweepRow Submitted(const std::string& key) {
    SweepRow sweep = MakeSweepRow("k1");
    sweep.idempotency_key = key;
    sweep.job.state = JobState::kQueued;
    sweep.job.finished_unix_ms = 0;
    return store_->AddSweep(sweep).value();
  }
  std::vector<int64_t> ClaimBy(Store& store, uint32_t limit) {
    std::vector<int64_t> ids;
    const std::vector<JobRow> rows = store.fleet()->Claim("NVIDIA H200", {}, limit).value();
    for (const JobRow& row : rows) ids.push_back(row.id);
    return ids;
  }

  std::unique_ptr<Store> other_;
  Mutex mutex_;
  std::set<int64_t> ran_;
  int64_t first_ = 0;
  int64_t second_ = 0;
};

TEST_F(FleetStoreTest, AJobThatWaitsAtOneHostIsClaimedByAnotherOnce) {
  const SweepRow one = Submitted("1");
  const SweepRow two = Submitted("2");
  EXPECT_THAT(ClaimBy(*store_, 9), IsEmpty()) << "they are its own";
  EXPECT_THAT(other_->fleet()->Claim("CPU", {"cpu"}, 9).value(), IsEmpty()) << "for another device";
  EXPECT_THAT(ClaimBy(*other_, 1), ElementsAre(one.job.id));
  EXPECT_EQ(store_->fleet()->Holders()->at(one.job.id), "b");
  const FleetStore::Asked asked = store_->fleet()->AskedOf({one.job.id, two.job.id}).value();
  EXPECT_THAT(asked.lost, ElementsAre(one.job.id));
  // Its first host finds out when it would start it.
  SweepRow starts = one;
  starts.job.state = JobState::kRunning;
  EXPECT_TRUE(absl::IsAborted(store_->UpdateSweep(starts)));
  EXPECT_TRUE(other_->UpdateSweep(starts).ok());
  EXPECT_THAT(ClaimBy(*store_, 9), IsEmpty()) << "it runs";
}

TEST_F(FleetStoreTest, WhatAHostFinishesAfterItsLeaseEndedIsRefused) {
  SweepRow sweep = Submitted("1");
  sweep.job.state = JobState::kRunning;
  ASSERT_TRUE(store_->UpdateSweep(sweep).ok());
  const TrialKey key = MakeTrialKey("k1");
  ASSERT_TRUE(store_->AppendTrial(MakeTrial(sweep.id, 1), key).ok());
  const int64_t beats = other_->fleet()->Beats().value().at(first_);
  ASSERT_TRUE(store_->fleet()->Beat("{}").ok());
  ASSERT_TRUE(other_->fleet()->EndLease(first_, beats).ok());
  EXPECT_TRUE(store_->AppendTrial(MakeTrial(sweep.id, 2), key).ok()) << "it had beaten since";
  ASSERT_TRUE(other_->fleet()->EndLease(first_, beats + 1).ok());
  EXPECT_TRUE(absl::IsAborted(store_->AppendTrial(MakeTrial(sweep.id, 3), key).status()));
  EXPECT_TRUE(absl::IsAborted(store_->fleet()->Beat("{}")));
  EXPECT_THAT(ClaimBy(*other_, 9), ElementsAre(sweep.job.id));
  EXPECT_TRUE(absl::IsAborted(store_->AppendTrial(MakeTrial(sweep.id, 3), key).status()));
  EXPECT_TRUE(absl::IsAborted(store_->UpdateSweep(sweep)));
  EXPECT_TRUE(absl::IsAborted(store_->PutJobEnd(sweep.job.id, "end")));
  EXPECT_TRUE(other_->AppendTrial(MakeTrial(sweep.id, 3), key).ok());
  EXPECT_EQ(store_->TrialsOfSweep(sweep.id)->size(), 3u);
  // A new lease does not bring the job back.
  Joined(*store_, "a");
  EXPECT_TRUE(absl::IsAborted(store_->AppendTrial(MakeTrial(sweep.id, 4), key).status()));
  // Nor does it end again a job that is over, which nobody has.
  SweepRow done = sweep;
  done.job.state = JobState::kDone;
  done.job.finished_unix_ms = 5;
  ASSERT_TRUE(other_->UpdateSweep(done).ok());
  EXPECT_TRUE(other_->UpdateSweep(done).ok()) << "the same end, told twice";
  done.job.finished_unix_ms = 9;
  EXPECT_TRUE(absl::IsAborted(store_->UpdateSweep(done)));
}

TEST_F(FleetStoreTest, ADaemonThatStartsAgainEndsItsOwnLease) {
  const SweepRow sweep = Submitted("1");
  Joined(*other_, "a");
  EXPECT_THAT(other_->fleet()->Hosts().value(), SizeIs(2)) << "b's lease is there, a's is new";
  EXPECT_THAT(ClaimBy(*other_, 9), ElementsAre(sweep.job.id));
}

TEST_F(FleetStoreTest, ConcurrentClaimsGiveEachJobToOneHost) {
  std::set<int64_t> jobs;
  for (int i = 0; i < 60; ++i) jobs.insert(Submitted(std::to_string(i)).job.id);
  const int64_t beats = other_->fleet()->Beats().value().at(first_);
  ASSERT_TRUE(other_->fleet()->EndLease(first_, beats).ok());
  Joined(*store_, "a");
  // A job of the other may be claimed on from it: who ran it at the end decides.
  std::vector<std::thread> hosts;
  for (Store* store : {store_.get(), other_.get()}) {
    hosts.emplace_back([this, store] {
      while (true) {
        const std::vector<JobRow> claimed = store->fleet()->Claim("NVIDIA H200", {}, 3).value();
        if (claimed.empty()) return;
        for (JobRow row : claimed) {
          row.state = JobState::kRunning;
          if (!store->UpdateJob(row).ok()) continue;
          MutexLock lock(mutex_);
          EXPECT_TRUE(ran_.insert(row.id).second) << "twice: " << row.id;
        }
      }
    });
  }
  for (std::thread& host : hosts) host.join();
  EXPECT_EQ(ran_, jobs);
}

TEST_F(FleetStoreTest, HostsAreListedDrainedAndAskedToCancel) {
  const SweepRow sweep = Submitted("1");
  ASSERT_TRUE(store_->fleet()->SetDrained("b", true).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->fleet()->SetDrained("c", true)));
  const std::vector<HostView> hosts = other_->fleet()->Hosts().value();
  ASSERT_THAT(hosts, SizeIs(2));
  EXPECT_EQ(hosts[0].row.name, "a");
  EXPECT_EQ(hosts[0].waiting_jobs, 1u);
  EXPECT_FALSE(hosts[0].drained);
  EXPECT_TRUE(hosts[1].drained);
  ASSERT_TRUE(other_->fleet()->AskToCancel(sweep.job.id).ok());
  EXPECT_THAT(store_->fleet()->AskedOf({sweep.job.id})->cancelled, ElementsAre(sweep.job.id));
}

}  // namespace
}  // namespace tune::db
