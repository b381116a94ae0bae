// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/sweep_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/devices/device_convert.h"
#include "server/records/record_convert.h"
#include "server/sweep/sweep_convert.h"
#include "server/wire/nouns.h"
#include "tests/db/faulty_disk.h"
#include "tests/server/temp_dir.h"

namespace tune::server {
namespace {

using testing::HasSubstr;

// Jobs that run until they are let go or stopped, and remember their order.
class Gate {
 public:
  SweepView Run(SweepView view, const SweepControl& control) {
    std::unique_lock lock(mutex_);
    started_.push_back(view.row.id);
    changed_.notify_all();
    while (!open_ && !control.stop) changed_.wait_for(lock, std::chrono::milliseconds(10));
    if (control.stop && !control.cancelled) return view;
    view.row.state = control.cancelled ? db::SweepState::kCancelled : db::SweepState::kDone;
    view.progress.done = 5;
    return view;
  }

  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void AwaitStarted(size_t count) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30),
                                  [&] { return started_.size() >= count; }));
  }
  std::vector<int64_t> started() const {
    std::lock_guard lock(mutex_);
    return started_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  std::vector<int64_t> started_;
};

class SweepQueueTest : public testing::Test {
 protected:
  SweepQueueTest() { Restart({}); }

  // As a daemon would after its end; with options for the new one.
  void Restart(const SweepQueue::Options& options) {
    queue_.reset();
    gate_ = std::make_unique<Gate>();
    store_.reset();
    store_ = db::Store::Open(dir_.path() + "/tune.db").value();
    queue_ = SweepQueue::Start(
                 options, *store_, ticker_,
                 [gate = gate_.get()](SweepView view, SweepFeed&, const SweepControl& control) {
                   return gate->Run(std::move(view), control);
                 })
                 .value();
  }

  // Makes the store look as if a daemon had died while the sweep ran.
  void DieRunning(int64_t id) {
    queue_.reset();
    db::SweepRow row = store_->GetSweep(id).value();
    row.state = db::SweepState::kRunning;
    ASSERT_TRUE(store_->UpdateSweep(row).ok());
  }

  static Submission MakeSubmission(const std::string& device, const std::string& key = "") {
    Submission submission{.kernel = {.hash = "hash", .name = "scale"}, .space_size = 10};
    submission.sweep.kernel_hash = "hash";
    submission.sweep.kernel_name = "scale";
    submission.sweep.device_id = device;
    submission.sweep.budget_trials = 5;
    submission.sweep.idempotency_key = key;
    return submission;
  }

  int64_t Submit(const std::string& device) {
    return queue_->Submit(MakeSubmission(device)).value().row.id;
  }

  // Waits for the end of a sweep as a watcher would.
  SweepView AwaitEnd(int64_t id) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    SweepView view = queue_->Get(id).value();
    while (!IsFinished(view.row.state) && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(5));
      view = queue_->Get(id).value();
    }
    return view;
  }

  db::FaultyDisk disk_;
  TempDir dir_;
  WatchTicker ticker_{{.period = absl::Milliseconds(20)}};
  std::unique_ptr<Gate> gate_;
  std::unique_ptr<db::Store> store_;
  std::unique_ptr<SweepQueue> queue_;
};

TEST_F(SweepQueueTest, SubmittedSweepIsStoredAndRun) {
  SweepView view = queue_->Submit(MakeSubmission("cpu")).value();
  EXPECT_EQ(view.progress.planned, 5u);
  EXPECT_EQ(view.progress.space_size, 10u);
  EXPECT_TRUE(store_->GetSweep(view.row.id).ok());
  gate_->Open();
  view = AwaitEnd(view.row.id);
  EXPECT_EQ(view.row.state, db::SweepState::kDone);
  EXPECT_GT(view.row.finished_unix_ms, 0);
}

TEST_F(SweepQueueTest, OneSweepAtATimeOnADeviceOldestFirst) {
  const int64_t first = Submit("cpu");
  const int64_t second = Submit("cpu");
  const int64_t other = Submit("cuda:0");
  gate_->AwaitStarted(2);
  EXPECT_EQ(queue_->counts().running, 2u);
  EXPECT_EQ(queue_->counts().queued, 1u);
  EXPECT_EQ(queue_->Get(second).value().row.state, db::SweepState::kQueued);
  gate_->Open();
  AwaitEnd(second);
  AwaitEnd(other);
  std::vector<int64_t> started = gate_->started();
  std::erase(started, other);
  EXPECT_EQ(started, (std::vector<int64_t>{first, second}));
}

TEST_F(SweepQueueTest, CancelEndsARunningSweep) {
  const int64_t id = Submit("cpu");
  gate_->AwaitStarted(1);
  SweepView view = queue_->Cancel(id, absl::Now() + absl::Seconds(30)).value();
  EXPECT_EQ(view.row.state, db::SweepState::kCancelled);
  EXPECT_EQ(view.progress.done, 5u) << "what was done is kept";
  EXPECT_EQ(store_->GetSweep(id).value().state, db::SweepState::kCancelled);
}

// What a sweep leaves, such as a process that a driver does not let go of yet, keeps the device but
// not the one who cancelled.
TEST_F(SweepQueueTest, CancelDoesNotWaitForWhatIsLeftOfASweep) {
  std::promise<void> let_go;
  std::atomic<int> started = 0;
  queue_ = SweepQueue::Start(
               {}, *store_, ticker_,
               [&](SweepView view, SweepFeed&, const SweepControl& control) -> SweepOutcome {
                 if (++started > 1) {
                   view.row.state = db::SweepState::kDone;
                   return view;
                 }
                 while (!control.stop) absl::SleepFor(absl::Milliseconds(5));
                 view.row.state = db::SweepState::kCancelled;
                 return {view, std::shared_ptr<void>(nullptr,
                                                     [&](void*) { let_go.get_future().wait(); })};
               })
               .value();
  const int64_t id = Submit("cpu");
  const int64_t next = Submit("cpu");
  while (started == 0) absl::SleepFor(absl::Milliseconds(5));
  const SweepView view = queue_->Cancel(id, absl::Now() + absl::Seconds(30)).value();
  EXPECT_EQ(view.row.state, db::SweepState::kCancelled);
  EXPECT_EQ(queue_->Get(next).value().row.state, db::SweepState::kQueued);
  EXPECT_EQ(started, 1) << "the device is not free yet";
  let_go.set_value();
  EXPECT_EQ(AwaitEnd(next).row.state, db::SweepState::kDone);
  queue_.reset();
}

TEST_F(SweepQueueTest, CancelTakesAWaitingSweepOutOfTheQueue) {
  const int64_t running = Submit("cpu");
  const int64_t waiting = Submit("cpu");
  gate_->AwaitStarted(1);
  SweepView view = queue_->Cancel(waiting, absl::Now() + absl::Seconds(30)).value();
  EXPECT_EQ(view.row.state, db::SweepState::kCancelled);
  gate_->Open();
  AwaitEnd(running);
  EXPECT_EQ(gate_->started(), std::vector<int64_t>{running});
}

TEST_F(SweepQueueTest, CancelOfAFinishedSweepChangesNothing) {
  const int64_t id = Submit("cpu");
  gate_->Open();
  AwaitEnd(id);
  EXPECT_EQ(queue_->Cancel(id, absl::Now()).value().row.state, db::SweepState::kDone);
}

TEST_F(SweepQueueTest, UnknownSweepIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(queue_->Get(77).status()));
  EXPECT_TRUE(absl::IsNotFound(queue_->Cancel(77, absl::Now()).status()));
  EXPECT_TRUE(absl::IsNotFound(queue_->Feed(77).status()));
}

TEST_F(SweepQueueTest, StoppedDaemonGoesOnWithItsSweepsInOrder) {
  const int64_t first = Submit("cpu");
  const int64_t second = Submit("cpu");
  gate_->AwaitStarted(1);
  queue_->Stop();
  EXPECT_EQ(store_->GetSweep(first).value().state, db::SweepState::kQueued);
  EXPECT_TRUE(absl::IsUnavailable(queue_->Submit(MakeSubmission("cpu")).status()));
  Restart({});
  gate_->Open();
  EXPECT_EQ(AwaitEnd(second).row.state, db::SweepState::kDone);
  EXPECT_EQ(gate_->started(), (std::vector<int64_t>{first, second}));
}

TEST_F(SweepQueueTest, WithoutTakingUpSweepsAreLeftForADaemon) {
  const int64_t left = Submit("cpu");
  gate_->AwaitStarted(1);
  Restart({.embedded = true});
  const int64_t mine = Submit("cpu");
  gate_->Open();
  EXPECT_EQ(AwaitEnd(mine).row.state, db::SweepState::kDone);
  const SweepView view = queue_->Get(left).value();
  EXPECT_EQ(view.row.state, db::SweepState::kQueued);
  EXPECT_FALSE(view.row.message.empty());
  EXPECT_EQ(view.progress.space_size, 10u);
  EXPECT_TRUE(absl::IsFailedPrecondition(queue_->Feed(left).status())) << "nothing to watch";
  EXPECT_EQ(queue_->Cancel(left, absl::Now()).value().row.state, db::SweepState::kCancelled);
  EXPECT_EQ(store_->GetSweep(left).value().state, db::SweepState::kCancelled);
}

// Its tunectl was killed, and nobody goes on with it: not a daemon, not another tunectl.
TEST_F(SweepQueueTest, AnEmbeddedSweepThatWasTerminatedIsInterruptedForGood) {
  for (const bool embedded : {false, true}) {
    Restart({.embedded = true});
    const int64_t left = Submit("cpu");
    gate_->AwaitStarted(1);
    queue_->Stop();
    EXPECT_EQ(store_->GetSweep(left).value().state, db::SweepState::kRunning)
        << "as if it was killed";
    Restart({.embedded = embedded});
    EXPECT_EQ(queue_->counts().queued + queue_->counts().running, 0u);
    const SweepView view = queue_->Get(left).value();
    EXPECT_EQ(ToProto(view).state(), v1::SWEEP_STATE_INTERRUPTED);
    EXPECT_NE(view.row.message.find("same command"), std::string::npos) << view.row.message;
    EXPECT_TRUE(queue_->Feed(left).ok()) << "a finished sweep can be watched";
    Restart({});
    EXPECT_EQ(ToProto(queue_->Get(left).value()).state(), v1::SWEEP_STATE_INTERRUPTED) << "stored";
    EXPECT_TRUE(gate_->started().empty());
  }
}

TEST_F(SweepQueueTest, WhoOnlyReadsSeesWhatAnotherProcessIsAt) {
  Restart({.embedded = true});
  const int64_t id = Submit("cpu");
  gate_->AwaitStarted(1);
  const std::string path = dir_.path() + "/tune.db";
  const std::unique_ptr<db::Store> reader = db::Store::OpenToRead(path).value();
  const auto look = [&](const std::string& owner) {
    auto queue = SweepQueue::Start({.embedded = true, .other_owner = owner}, *reader, ticker_, {});
    const SweepView view = queue.value()->Get(id).value();
    EXPECT_TRUE(absl::IsFailedPrecondition(queue.value()->Feed(id).status()));
    EXPECT_FALSE(queue.value()->Submit(MakeSubmission("cpu")).ok());
    return ToProto(view);
  };
  v1::Sweep sweep = look("tunectl (process 17)");
  EXPECT_EQ(sweep.state(), v1::SWEEP_STATE_RUNNING);
  EXPECT_EQ(sweep.message(), "in tunectl (process 17)");
  EXPECT_TRUE(sweep.embedded());
  // Nobody has the store: then nobody runs it either.
  EXPECT_EQ(look("").state(), v1::SWEEP_STATE_INTERRUPTED);
}

TEST_F(SweepQueueTest, WhatWaitsSaysHowManyAreAhead) {
  Submit("cpu");
  const int64_t second = Submit("cpu");
  const int64_t third = Submit("cpu");
  gate_->AwaitStarted(1);
  EXPECT_EQ(queue_->Get(second).value().row.message, "1 sweep is ahead of it on cpu");
  EXPECT_EQ(queue_->Get(third).value().row.message, "2 sweeps are ahead of it on cpu");
  ASSERT_TRUE(queue_->Cancel(second, absl::Now() + absl::Seconds(30)).ok());
  EXPECT_EQ(queue_->Get(third).value().row.message, "1 sweep is ahead of it on cpu");
}

TEST_F(SweepQueueTest, FinishedSweepKeepsItsCountsAcrossARestart) {
  const int64_t id = Submit("cpu");
  gate_->Open();
  AwaitEnd(id);
  Restart({});
  SweepView view = queue_->Get(id).value();
  EXPECT_EQ(view.progress.done, 5u);
  EXPECT_EQ(view.progress.space_size, 10u);
  EXPECT_TRUE(gate_->started().empty()) << "it is not run again";
}

TEST_F(SweepQueueTest, SameKeyIsTheSameSweep) {
  const int64_t id = queue_->Submit(MakeSubmission("cpu", "key")).value().row.id;
  EXPECT_EQ(queue_->Submit(MakeSubmission("cpu", "key")).value().row.id, id);
  EXPECT_NE(queue_->Submit(MakeSubmission("cpu", "other")).value().row.id, id);
  gate_->Open();
  AwaitEnd(id);
  EXPECT_EQ(queue_->Submit(MakeSubmission("cpu", "key")).value().row.id, id)
      << "also when finished";
  Restart({});
  EXPECT_EQ(queue_->Submit(MakeSubmission("cpu", "key")).value().row.state, db::SweepState::kDone);
}

TEST_F(SweepQueueTest, FullQueueRefuses) {
  Restart({.unfinished_max = 2});
  const int64_t id = queue_->Submit(MakeSubmission("cpu", "key")).value().row.id;
  Submit("cpu");
  EXPECT_TRUE(absl::IsResourceExhausted(queue_->Submit(MakeSubmission("cpu")).status()));
  EXPECT_EQ(queue_->Submit(MakeSubmission("cpu", "key")).value().row.id, id);
  ASSERT_TRUE(queue_->Cancel(id, absl::Now() + absl::Seconds(30)).ok());
  EXPECT_TRUE(queue_->Submit(MakeSubmission("cpu")).ok());
}

TEST_F(SweepQueueTest, ListIsNewestFirstAndLimited) {
  const int64_t first = Submit("cpu");
  const int64_t second = Submit("cpu");
  const std::vector<SweepView> all = queue_->List(10).value();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].row.id, second);
  EXPECT_EQ(all[1].row.id, first);
  EXPECT_EQ(queue_->List(1).value().size(), 1u);
}

TEST_F(SweepQueueTest, OldViewsAreReadFromTheStore) {
  Restart({.views_kept_max = 1});
  gate_->Open();
  std::vector<int64_t> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(Submit("cpu"));
  for (int64_t id : ids) EXPECT_EQ(AwaitEnd(id).progress.done, 5u);
}

TEST_F(SweepQueueTest, ASweepThatDaemonsDieWithFailsAndIsNotRunAgain) {
  const int64_t killer = Submit("cpu");
  const int64_t other = Submit("cpu");
  gate_->AwaitStarted(1);
  DieRunning(killer);
  Restart({.deaths_max = 2});
  EXPECT_EQ(store_->GetSweep(killer).value().deaths, 1u);
  gate_->AwaitStarted(1);
  EXPECT_EQ(gate_->started(), std::vector<int64_t>{other}) << "the one in doubt comes last";

  DieRunning(killer);
  Restart({.deaths_max = 2});
  const SweepView failed = queue_->Get(killer).value();
  EXPECT_EQ(failed.row.state, db::SweepState::kFailed);
  EXPECT_EQ(failed.row.deaths, 2u);
  EXPECT_THAT(failed.row.message, HasSubstr("2 daemons died while this sweep ran"));
  EXPECT_THAT(failed.row.message, HasSubstr("submit it again"));
  EXPECT_GT(failed.row.finished_unix_ms, 0);
  gate_->Open();
  EXPECT_EQ(AwaitEnd(other).row.state, db::SweepState::kDone);
  EXPECT_EQ(gate_->started(), std::vector<int64_t>{other});
}

TEST_F(SweepQueueTest, ADaemonThatStopsInOrderIsNoDeath) {
  const int64_t id = Submit("cpu");
  for (int i = 0; i < 5; ++i) {
    gate_->AwaitStarted(1);
    Restart({.deaths_max = 1});
    EXPECT_EQ(store_->GetSweep(id).value().deaths, 0u);
  }
  gate_->Open();
  EXPECT_EQ(AwaitEnd(id).row.state, db::SweepState::kDone);
}

TEST_F(SweepQueueTest, ASweepWhoseRowMakesNoSenseStopsNobody) {
  const int64_t bad = Submit("cpu");
  const int64_t good = Submit("cuda:0");
  gate_->AwaitStarted(2);
  queue_.reset();
  db::SweepRow row = store_->GetSweep(bad).value();
  row.summary = "{ no summary";
  ASSERT_TRUE(store_->UpdateSweep(row).ok());
  Restart({});
  gate_->Open();
  EXPECT_EQ(AwaitEnd(good).row.state, db::SweepState::kDone);
  EXPECT_EQ(queue_->List(10).value().size(), 1u);
  EXPECT_TRUE(absl::IsDataLoss(queue_->Get(bad).status())) << "whoever asks for it is told";
  const std::vector<db::UnreadableRow> rows = store_->UnreadableRows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].table, "sweep");
  EXPECT_EQ(rows[0].id, bad);
}

TEST_F(SweepQueueTest, TheEndOfASweepWaitsForSpaceAndNothingIsToldBefore) {
  const int64_t running = Submit("cpu");
  const int64_t waiting = Submit("cpu");
  gate_->AwaitStarted(1);
  disk_.write_error = ENOSPC;
  const absl::Status refused = queue_->Cancel(waiting, absl::Now() + absl::Seconds(5)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("free some space"));
  EXPECT_EQ(queue_->Submit(MakeSubmission("cpu")).status().code(),
            absl::StatusCode::kResourceExhausted);
  gate_->Open();
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (queue_->Get(running).value().row.message.find("not stored yet") == std::string::npos) {
    ASSERT_LT(absl::Now(), deadline) << "its end is told to wait";
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_FALSE(IsFinished(queue_->Get(running).value().row.state));
  disk_.write_error = 0;
  EXPECT_EQ(AwaitEnd(running).row.state, db::SweepState::kDone);
  EXPECT_EQ(AwaitEnd(waiting).row.state, db::SweepState::kDone) << "it was never cancelled";
  EXPECT_EQ(store_->GetSweep(running).value().state, db::SweepState::kDone);
}

}  // namespace
}  // namespace tune::server
