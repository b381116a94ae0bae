// SPDX-License-Identifier: Apache-2.0
// Many threads on one store; meant to be run under the thread sanitizer too.
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "gtest/gtest.h"
#include "tests/db/rows_to_store.h"

namespace tune::db {
namespace {

TEST_F(StoreTest, WritersAndReadersDoNotDisturbEachOther) {
  constexpr int kWriters = 8;
  constexpr int kReaders = 6;  // more than there are connections
  constexpr int kTrials = 25;
  Store& store = OpenWithSweep();
  std::atomic<int> writing = kWriters;
  std::mutex mutex;
  std::set<int64_t> ids;  // under mutex

  std::vector<std::thread> threads;
  for (int writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([&, writer] {
      for (int i = 0; i < kTrials; ++i) {
        absl::StatusOr<int64_t> id =
            store.AppendTrial(MakeTrial(sweep_.id, writer * kTrials + i), MakeTrialKey("k1"));
        ASSERT_TRUE(id.ok()) << id.status();
        // An acknowledged trial can be read on any connection.
        ASSERT_TRUE(store.GetTrial(*id).ok());
        std::lock_guard lock(mutex);
        ASSERT_TRUE(ids.insert(*id).second);
      }
      --writing;
    });
  }
  for (int reader = 0; reader < kReaders; ++reader) {
    threads.emplace_back([&] {
      size_t seen = 0;
      do {
        absl::StatusOr<std::vector<Trial>> trials = store.TrialsOfSweep(sweep_.id);
        ASSERT_TRUE(trials.ok()) << trials.status();
        ASSERT_GE(trials->size(), seen) << "trials do not go away";
        seen = trials->size();
        ASSERT_TRUE(store.Statistics().ok());
      } while (writing > 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ids.size(), static_cast<size_t>(kWriters * kTrials));
  EXPECT_EQ(store.TrialsOfKey(MakeTrialKey("k1")).value().size(), ids.size());
}

TEST_F(StoreTest, AFailedWriteDoesNotTakeItsNeighboursAlong) {
  constexpr int kWriters = 8;
  constexpr int kWrites = 30;
  Store& store = OpenWithSweep();
  std::vector<std::thread> threads;
  for (int writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([&, writer] {
      for (int i = 0; i < kWrites; ++i) {
        const bool good = (writer + i) % 2 == 0;
        absl::Status status =
            store.AppendTrial(MakeTrial(good ? sweep_.id : 12345), MakeTrialKey("k1")).status();
        ASSERT_EQ(status.code(), good ? absl::StatusCode::kOk : absl::StatusCode::kNotFound)
            << status;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store.TrialsOfSweep(sweep_.id).value().size(),
            static_cast<size_t>(kWriters * kWrites / 2));
}

TEST_F(StoreTest, TheSameIdempotencyKeyAtOnceMakesOneSweep) {
  Store& store = Reopen();
  ASSERT_TRUE(store.PutKernel(MakeKernelRow("k1")).ok());
  std::mutex mutex;
  std::set<int64_t> ids;  // under mutex
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      absl::StatusOr<SweepRow> sweep = store.AddSweep(MakeSweepRow("k1"));
      ASSERT_TRUE(sweep.ok()) << sweep.status();
      std::lock_guard lock(mutex);
      ids.insert(sweep->id);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ids.size(), 1u);
}

}  // namespace
}  // namespace tune::db
