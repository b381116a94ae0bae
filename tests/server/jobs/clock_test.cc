// SPDX-License-Identifier: Apache-2.0
// Somebody sets the clock: deadlines, budgets and waits do not notice.
#include "absl/time/clock.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

#include "base/steady_time.h"
#include "db/store.h"
#include "server/sweep/sweeps.h"
#include "tests/db/faulty_disk.h"
#include "tests/db/rows_to_store.h"
#include "tests/server/set_clock.h"
#include "tests/server/temp_dir.h"
#include "tuner/sweep/evaluator.h"

namespace tune::server {
namespace {

constexpr int64_t kHour = 3600;

class ClockTest : public testing::Test {
 protected:
  ClockTest() { SteadyNow(); }
  ~ClockTest() override { g_clock_set_by_seconds = 0; }
};

TEST_F(ClockTest, TheClockOfThisTestCanBeSet) {
  const absl::Time before = absl::Now();
  g_clock_set_by_seconds = 5 * kHour;
  EXPECT_GT(absl::Now() - before, absl::Hours(4)) << "or no other test here means anything";
}

TEST_F(ClockTest, SteadyTimeGoesOnEvenly) {
  for (const int64_t jump : {kHour, -kHour, 1000 * kHour, -100000 * kHour}) {
    const absl::Time before = SteadyNow();
    g_clock_set_by_seconds += jump;
    const absl::Duration passed = SteadyNow() - before;
    EXPECT_GE(passed, absl::ZeroDuration()) << jump;
    EXPECT_LT(passed, absl::Minutes(1)) << jump;
  }
}

class AnyEvaluator : public Evaluator {
 public:
  size_t capacity() const override { return 1; }
  absl::Status Start(const Config&) override { return absl::OkStatus(); }
  absl::StatusOr<std::optional<Trial>> Next(absl::Duration) override { return std::nullopt; }
  absl::StatusOr<std::vector<Trial>> Remeasure(const std::vector<Config>&) override {
    return std::vector<Trial>();
  }
  void SetRival(double) override {}
};

TEST_F(ClockTest, ABudgetIsOfSteadyTime) {
  const AnyEvaluator evaluator;
  const absl::Time before = evaluator.Now();
  g_clock_set_by_seconds = -kHour;
  EXPECT_GE(evaluator.Now(), before);
  g_clock_set_by_seconds = kHour;
  EXPECT_LT(evaluator.Now() - before, absl::Minutes(1));
}

// A job that goes on whatever it is told, until it is released.
class Deaf {
 public:
  JobWork::End Run() {
    started_.set_value();
    released_.get_future().wait();
    return {.status = absl::CancelledError("cancelled")};
  }
  void AwaitStarted() { started_.get_future().wait(); }
  void Release() { released_.set_value(); }

 private:
  std::promise<void> started_;
  std::promise<void> released_;
};

TEST_F(ClockTest, ADeadlineEndsAWaitWhateverTheClockDoes) {
  const TempDir dir;
  const auto store = db::Store::Open(dir.path() + "/tune.db").value();
  WatchTicker ticker({.period = absl::Milliseconds(20)});
  Deaf job;
  DeviceTurns turns;
  Scheduler scheduler({}, *store, turns, ticker, DeviceCare());
  const auto sweeps = Sweeps::Start({}, *store, scheduler, [&](SweepWork&, JobContext&) {
                        return job.Run();
                      }).value();
  Submission submission{.kernel = {.hash = "hash", .name = "scale"}, .space_size = 10};
  submission.sweep.kernel_hash = "hash";
  submission.sweep.kernel_name = "scale";
  submission.sweep.job.device_id = "cpu";
  submission.device_ids = {"cpu"};
  const int64_t id = sweeps->Submit(submission).value().row.job.id;
  job.AwaitStarted();
  for (const int64_t jump : {-kHour, kHour}) {
    const absl::Time start = SteadyNow();
    auto cancelling = std::async(std::launch::async,
                                 [&] { return scheduler.Cancel(id, start + absl::Seconds(1)); });
    g_clock_set_by_seconds += jump;
    EXPECT_EQ(cancelling.get().status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_GE(SteadyNow() - start, absl::Milliseconds(990)) << jump;
    EXPECT_LT(SteadyNow() - start, absl::Seconds(30)) << jump;
  }
  job.Release();
  scheduler.Stop();
}

using ClockStoreTest = db::StoreTest;

TEST_F(ClockStoreTest, AHangingDiskIsGivenUpOnAfterTheSameTime) {
  db::FaultyDisk disk;
  OpenWithSweep();
  store_.reset();
  store_ = db::Store::Open(path(), {.patience = absl::Seconds(1)}).value();
  disk.HangSyncs();
  const absl::Time start = SteadyNow();
  auto writing = std::async(std::launch::async, [&] {
    return store_->AppendTrial(db::MakeTrial(sweep_.id), db::MakeTrialKey("k1")).status();
  });
  disk.AwaitHanging();
  g_clock_set_by_seconds = -kHour;
  EXPECT_EQ(writing.get().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(SteadyNow() - start, absl::Seconds(30));
  disk.Release();
  g_clock_set_by_seconds = 0;
  store_.reset();
}

// What is newest is told by ids, which only grow.
TEST_F(ClockStoreTest, TheNewestRecordWinsThoughItsClockWasEarlier) {
  db::Store& store = OpenWithSweep();
  for (const int64_t published_unix_ms : {2'000'000, 1'000'000}) {
    lookup::Record record{.key = db::MakeTrialKey("k1"),
                          .kernel_name = "softmax",
                          .published_unix_ms = published_unix_ms};
    record.trial.id = store.AppendTrial(db::MakeConfirmed(sweep_.id), record.key).value();
    ASSERT_TRUE(store.PublishRecord(record).ok());
  }
  const std::vector<lookup::Record> records = store.CurrentRecords().value();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].published_unix_ms, 1'000'000);
}

}  // namespace
}  // namespace tune::server
