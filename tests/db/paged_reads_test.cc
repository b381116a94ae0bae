// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "db/checks.h"
#include "db/record_store.h"
#include "db/sqlite_connection.h"
#include "gtest/gtest.h"
#include "tests/db/rows_to_store.h"

namespace tune::db {
namespace {

TEST_F(StoreTest, RecordsAfterReturnsOnlyNewerRecords) {
  Store& store = OpenWithSweep();
  const TrialKey key = MakeTrialKey("k1");
  const auto publish = [&](int64_t block) {
    Trial trial = MakeConfirmed(sweep_.id, block);
    trial.id = store.AppendTrial(trial, key).value();
    return store.PublishRecord({.key = key, .trial = trial, .published_unix_ms = block}).value();
  };
  EXPECT_TRUE(store.RecordsAfter(0)->empty());
  const std::string none = store.FingerprintOfRecords(0).value();
  const int64_t first = publish(32);
  const std::string before = store.FingerprintOfRecords(first).value();
  const int64_t second = publish(64);
  EXPECT_EQ(store.FingerprintOfRecords(0).value(), none);
  EXPECT_EQ(store.FingerprintOfRecords(first).value(), before) << "newer ones do not count";
  EXPECT_NE(store.FingerprintOfRecords(second).value(), before);
  ASSERT_EQ(store.RecordsAfter(0)->size(), 2u) << "the first was replaced, and is there";
  ASSERT_EQ(store.RecordsAfter(first)->size(), 1u);
  ASSERT_EQ(store.NewestRecords(9)->size(), 2u);
  ASSERT_EQ(store.NewestRecords(1)->size(), 1u);
  EXPECT_GT(store.NewestRecords(1)->front().id, first);
  EXPECT_EQ(store.RecordsAfter(first)->front().id, second);
  EXPECT_EQ(store.RecordsAfter(first)->front().trial.config, MakeConfig(64));
  store_.reset();
  ASSERT_EQ(RunSql(path(), "DELETE FROM record WHERE id = 1"), "");
  EXPECT_NE(Reopen().FingerprintOfRecords(first).value(), before);
  EXPECT_TRUE(store_->CheckFile({}).ok());
}

TEST_F(StoreTest, TrialsAreReadInPages) {
  Store& store = OpenWithSweep();
  for (int64_t block = 1; block <= 5; ++block) {
    ASSERT_TRUE(store.AppendTrial(MakeTrial(sweep_.id, block), MakeTrialKey("k1")).ok());
  }
  const std::vector<int64_t> first = store.TrialIdsOf(sweep_.id, 0, 3).value();
  EXPECT_EQ(first, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(store.TrialIdsOf(sweep_.id, 3, 3).value(), (std::vector<int64_t>{4, 5}));
  EXPECT_TRUE(store.TrialIdsOf(sweep_.id, 5, 3).value().empty());
  const std::vector<Trial> whole = store.TrialsWithIds({2, 5, 99}, /*whole=*/true).value();
  ASSERT_EQ(whole.size(), 2u);
  EXPECT_EQ(whole[1].config, MakeConfig(5));
  EXPECT_EQ(whole[1].measurement.samples_ns, MakeTrial(1).measurement.samples_ns);
  EXPECT_TRUE(store.TrialsWithIds({5}, /*whole=*/false).value()[0].measurement.samples_ns.empty());

  // The trials that a later sweep can reuse are the same in pages and all at once.
  SweepRow later = MakeSweepRow("k1");
  later.idempotency_key.clear();
  later.fresh = false;
  later = store.AddSweep(later).value();
  ASSERT_TRUE(store.AppendTrial(MakeTrial(later.id, 3), MakeTrialKey("k1")).ok());
  std::vector<int64_t> known;
  for (int64_t last = 0; true; last = known.back()) {
    const std::vector<int64_t> page = store.TrialIdsKnownTo(later, last, 1).value();
    if (page.empty()) break;
    known.push_back(page.front());
  }
  std::vector<int64_t> at_once;
  const std::vector<Trial> trials = store.TrialsKnownTo(later).value();
  for (const Trial& trial : trials) at_once.push_back(trial.id);
  EXPECT_EQ(known, at_once);
  EXPECT_EQ(known.size(), 5u);
}

TEST_F(StoreTest, RebuildRecordsSkipsSettledSweeps) {
  Store& store = OpenWithSweep();
  const TrialKey key = MakeTrialKey("k1");
  sweep_.best_trial_id = store.AppendTrial(MakeConfirmed(sweep_.id, 32), key).value();
  ASSERT_TRUE(store.UpdateSweep(sweep_).ok());
  EXPECT_EQ(store.SettledSweep().value(), sweep_.id - 1) << "it still runs";
  sweep_.job.state = JobState::kDone;
  ASSERT_TRUE(store.UpdateSweep(sweep_).ok());
  EXPECT_EQ(store.SettledSweep().value(), sweep_.id);
  EXPECT_EQ(store.RebuildRecords(sweep_.id).value(), 0);
  EXPECT_EQ(store.RebuildRecords(sweep_.id - 1).value(), 1);
}

// Its daemon stops, so nobody wants to know any more.
TEST_F(StoreTest, TheCheckOfTheFileEndsWhenItIsCancelled) {
  if (PostgresForTests() != nullptr) GTEST_SKIP() << "of files";
  Reopen();
  auto connection = SqliteConnection::Open(path(), SqliteConnection::Mode::kReadOnly).value();
  EXPECT_TRUE(QuickCheck(*connection, path(), [] { return false; }).ok());
  EXPECT_TRUE(absl::IsCancelled(QuickCheck(*connection, path(), [] { return true; })));
  EXPECT_TRUE(QuickCheck(*connection, path()).ok()) << "and the connection goes on";
}

}  // namespace
}  // namespace tune::db
