// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/sweeps.h"

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
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "db/store.h"
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
  JobWork::End Run(SweepWork& work, JobContext& context) {
    SweepView view = work.view();
    std::unique_lock lock(mutex_);
    started_.push_back(view.row.id);
    changed_.notify_all();
    while (!open_ && !context.stop()) changed_.wait_for(lock, std::chrono::milliseconds(10));
    if (context.stop() && !context.cancelled_for_good()) return {.interrupted = true};
    view.progress.done = 5;
    work.Update(std::move(view));
    return {.status = context.stop() ? absl::CancelledError("cancelled") : absl::OkStatus()};
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

class SweepsTest : public testing::Test {
 protected:
  SweepsTest() { Restart({}); }

  ~SweepsTest() override { Stop(); }

  void Stop() {
    if (scheduler_ != nullptr) scheduler_->Stop();
    sweeps_.reset();
    scheduler_.reset();
  }

  void Start(const Sweeps::Options& options, size_t unfinished_max, RunSweepJob run) {
    scheduler_options_.unfinished_max = unfinished_max;
    scheduler_options_.embedded = options.left.embedded;
    scheduler_options_.why_out_of_use = nullptr;
    if (options.known_devices) {
      scheduler_options_.why_out_of_use = [known = options.known_devices](const std::string& id) {
        return WhyOutOfUse(*known(), id);
      };
    }
    scheduler_ =
        std::make_unique<Scheduler>(scheduler_options_, *store_, turns_, ticker_, DeviceCare());
    sweeps_ = Sweeps::Start(options, *store_, *scheduler_, std::move(run)).value();
  }

  // As a daemon would after its end; with options for the new one.
  void Restart(const Sweeps::Options& options, size_t unfinished_max = 256) {
    Stop();
    gate_ = std::make_unique<Gate>();
    store_.reset();
    store_ = db::Store::Open(dir_.path() + "/tune.db").value();
    Start(options, unfinished_max, [gate = gate_.get()](SweepWork& work, JobContext& context) {
      return gate->Run(work, context);
    });
  }

  // Makes the store look as if a daemon had died while the sweep ran.
  void DieRunning(int64_t id) {
    Stop();
    db::SweepRow row = store_->GetSweep(id).value();
    row.job.state = db::JobState::kRunning;
    ASSERT_TRUE(store_->UpdateSweep(row).ok());
  }

  static Submission MakeSubmission(const std::string& device, const std::string& key = "") {
    Submission submission{.kernel = {.hash = "hash", .name = "scale"}, .space_size = 10};
    submission.sweep.kernel_hash = "hash";
    submission.sweep.kernel_name = "scale";
    submission.sweep.job = {.kind = db::JobKind::kSweep, .device_id = device};
    submission.device_ids = {device};
    submission.sweep.budget_trials = 5;
    submission.sweep.idempotency_key = key;
    return submission;
  }

  int64_t Submit(const std::string& device) {
    return sweeps_->Submit(MakeSubmission(device)).value().row.id;
  }

  // As CancelJob does.
  absl::StatusOr<SweepView> Cancel(int64_t id, absl::Time deadline) {
    ASSIGN_OR_RETURN(const SweepView asked, sweeps_->Get(id));
    const int64_t job_id = asked.row.job.id;
    const absl::Status cancelled = scheduler_->Cancel(job_id, deadline).status();
    if (absl::IsNotFound(cancelled)) {
      RETURN_IF_ERROR(sweeps_->CancelLeft(job_id));
    } else {
      RETURN_IF_ERROR(cancelled);
    }
    return sweeps_->Get(id);
  }

  // Waits for the end of a sweep as a watcher would.
  SweepView AwaitEnd(int64_t id) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    SweepView view = sweeps_->Get(id).value();
    while (!db::IsFinished(view.row.job.state) && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(5));
      view = sweeps_->Get(id).value();
    }
    return view;
  }

  db::FaultyDisk disk_;
  TempDir dir_;
  WatchTicker ticker_{{.period = absl::Milliseconds(20)}};
  std::unique_ptr<Gate> gate_;
  std::unique_ptr<db::Store> store_;
  Scheduler::Options scheduler_options_;
  DeviceTurns turns_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Sweeps> sweeps_;
};

TEST_F(SweepsTest, SubmittedSweepIsStoredAndRun) {
  SweepView view = sweeps_->Submit(MakeSubmission("cpu")).value();
  EXPECT_EQ(view.progress.planned, 5u);
  EXPECT_EQ(view.progress.space_size, 10u);
  EXPECT_TRUE(store_->GetSweep(view.row.id).ok());
  gate_->Open();
  view = AwaitEnd(view.row.id);
  EXPECT_EQ(view.row.job.state, db::JobState::kDone);
  EXPECT_GT(view.row.job.finished_unix_ms, 0);
}

TEST_F(SweepsTest, OneSweepAtATimeOnADeviceOldestFirst) {
  const int64_t first = Submit("cpu");
  const int64_t second = Submit("cpu");
  const int64_t other = Submit("cuda:0");
  gate_->AwaitStarted(2);
  EXPECT_EQ(scheduler_->counts().running, 2u);
  EXPECT_EQ(scheduler_->counts().queued, 1u);
  EXPECT_EQ(sweeps_->Get(second).value().row.job.state, db::JobState::kQueued);
  gate_->Open();
  AwaitEnd(second);
  AwaitEnd(other);
  std::vector<int64_t> started = gate_->started();
  std::erase(started, other);
  EXPECT_EQ(started, (std::vector<int64_t>{first, second}));
}

TEST_F(SweepsTest, CancelEndsARunningSweep) {
  const int64_t id = Submit("cpu");
  gate_->AwaitStarted(1);
  SweepView view = Cancel(id, absl::Now() + absl::Seconds(30)).value();
  EXPECT_EQ(view.row.job.state, db::JobState::kCancelled);
  EXPECT_EQ(view.progress.done, 5u) << "what was done is kept";
  EXPECT_EQ(store_->GetSweep(id).value().job.state, db::JobState::kCancelled);
}

// What a sweep leaves, such as a process that a driver does not let go of yet, keeps the device but
// not the one who cancelled.
TEST_F(SweepsTest, CancelDoesNotWaitForWhatIsLeftOfASweep) {
  std::promise<void> let_go;
  std::promise<void> first_started;
  std::atomic<int> started = 0;
  Stop();
  Start({}, 256, [&](SweepWork&, JobContext& context) -> JobWork::End {
    if (++started > 1) return {};
    first_started.set_value();
    while (!context.stop()) std::this_thread::yield();
    return {.status = absl::CancelledError("cancelled"),
            .remains = std::shared_ptr<void>(nullptr, [&](void*) { let_go.get_future().wait(); })};
  });
  const int64_t id = Submit("cpu");
  const int64_t next = Submit("cpu");
  first_started.get_future().wait();
  const SweepView view = Cancel(id, absl::Now() + absl::Seconds(30)).value();
  EXPECT_EQ(view.row.job.state, db::JobState::kCancelled);
  EXPECT_EQ(sweeps_->Get(next).value().row.job.state, db::JobState::kQueued);
  EXPECT_EQ(started, 1) << "the device is not free yet";
  let_go.set_value();
  EXPECT_EQ(AwaitEnd(next).row.job.state, db::JobState::kDone);
  Stop();
}

TEST_F(SweepsTest, CancelTakesAWaitingSweepOutOfTheQueue) {
  const int64_t running = Submit("cpu");
  const int64_t waiting = Submit("cpu");
  gate_->AwaitStarted(1);
  SweepView view = Cancel(waiting, absl::Now() + absl::Seconds(30)).value();
  EXPECT_EQ(view.row.job.state, db::JobState::kCancelled);
  gate_->Open();
  AwaitEnd(running);
  EXPECT_EQ(gate_->started(), std::vector<int64_t>{running});
}

TEST_F(SweepsTest, CancelOfAFinishedSweepChangesNothing) {
  const int64_t id = Submit("cpu");
  gate_->Open();
  AwaitEnd(id);
  EXPECT_EQ(Cancel(id, absl::Now()).value().row.job.state, db::JobState::kDone);
}

TEST_F(SweepsTest, UnknownSweepIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(sweeps_->Get(77).status()));
  EXPECT_TRUE(absl::IsNotFound(Cancel(77, absl::Now()).status()));
  EXPECT_TRUE(absl::IsNotFound(sweeps_->OfJob(77).status()));
}

TEST_F(SweepsTest, StoppedDaemonGoesOnWithItsSweepsInOrder) {
  const int64_t first = Submit("cpu");
  const int64_t second = Submit("cpu");
  gate_->AwaitStarted(1);
  scheduler_->Stop();
  EXPECT_EQ(store_->GetSweep(first).value().job.state, db::JobState::kQueued);
  EXPECT_TRUE(absl::IsUnavailable(sweeps_->Submit(MakeSubmission("cpu")).status()));
  Restart({});
  gate_->Open();
  EXPECT_EQ(AwaitEnd(second).row.job.state, db::JobState::kDone);
  EXPECT_EQ(gate_->started(), (std::vector<int64_t>{first, second}));
}

TEST_F(SweepsTest, WithoutTakingUpSweepsAreLeftForADaemon) {
  const int64_t left = Submit("cpu");
  gate_->AwaitStarted(1);
  Restart({.left = {.embedded = true}});
  const int64_t mine = Submit("cpu");
  gate_->Open();
  EXPECT_EQ(AwaitEnd(mine).row.job.state, db::JobState::kDone);
  const SweepView view = sweeps_->Get(left).value();
  EXPECT_EQ(view.row.job.state, db::JobState::kQueued);
  EXPECT_FALSE(view.row.job.message.empty());
  EXPECT_EQ(view.progress.space_size, 10u);
  EXPECT_EQ(Cancel(left, absl::Now()).value().row.job.state, db::JobState::kCancelled);
  EXPECT_EQ(store_->GetSweep(left).value().job.state, db::JobState::kCancelled);
}

// Its tunectl was killed, and nobody goes on with it: not a daemon, not another tunectl.
TEST_F(SweepsTest, AnEmbeddedSweepThatWasTerminatedIsInterruptedForGood) {
  for (const bool embedded : {false, true}) {
    Restart({.left = {.embedded = true}});
    const int64_t left = Submit("cpu");
    gate_->AwaitStarted(1);
    scheduler_->Stop();
    EXPECT_EQ(store_->GetSweep(left).value().job.state, db::JobState::kRunning)
        << "as if it was killed";
    Restart({.left = {.embedded = embedded}});
    EXPECT_EQ(scheduler_->counts().queued + scheduler_->counts().running, 0u);
    const SweepView view = sweeps_->Get(left).value();
    EXPECT_TRUE(ToProto(view).interrupted());
    EXPECT_EQ(ToProto(view).state(), v1::JOB_STATE_CANCELLED);
    EXPECT_NE(view.row.job.message.find("same command"), std::string::npos) << view.row.job.message;
    Restart({});
    EXPECT_TRUE(ToProto(sweeps_->Get(left).value()).interrupted()) << "stored";
    EXPECT_TRUE(gate_->started().empty());
  }
}

TEST_F(SweepsTest, WhoOnlyReadsSeesWhatAnotherProcessIsAt) {
  Restart({.left = {.embedded = true}});
  const int64_t id = Submit("cpu");
  gate_->AwaitStarted(1);
  const std::string path = dir_.path() + "/tune.db";
  const std::unique_ptr<db::Store> reader = db::Store::OpenToRead(path).value();
  const auto look = [&](const std::string& owner) {
    Scheduler scheduler({.embedded = true}, *reader, turns_, ticker_, DeviceCare());
    const std::unique_ptr<Sweeps> sweeps =
        Sweeps::Start({.left = {.embedded = true}, .other_owner = owner}, *reader, scheduler, {})
            .value();
    const SweepView view = sweeps->Get(id).value();
    EXPECT_FALSE(sweeps->Submit(MakeSubmission("cpu")).ok());
    return ToProto(view);
  };
  v1::Sweep sweep = look("tunectl (process 17)");
  EXPECT_EQ(sweep.state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(sweep.message(), "in tunectl (process 17)");
  EXPECT_TRUE(sweep.embedded());
  // Nobody has the store: then nobody runs it either.
  sweep = look("");
  EXPECT_EQ(sweep.state(), v1::JOB_STATE_CANCELLED);
  EXPECT_TRUE(sweep.interrupted());
}

TEST_F(SweepsTest, WhatWaitsSaysWhoHasTheDeviceAndHowManyAreAhead) {
  const int64_t first = Submit("cpu");
  gate_->AwaitStarted(1);
  const int64_t second = Submit("cpu");
  const int64_t third = Submit("cpu");
  const std::string holder = absl::StrCat("waiting for cpu, which sweep ", first, " has");
  EXPECT_EQ(sweeps_->Get(second).value().row.job.message, holder);
  EXPECT_EQ(ToProto(sweeps_->Get(second).value()).state(), v1::JOB_STATE_WAITING);
  EXPECT_EQ(sweeps_->Get(third).value().row.job.message,
            absl::StrCat(holder, "; 1 other job is ahead of it"));
  ASSERT_TRUE(Cancel(second, absl::Now() + absl::Seconds(30)).ok());
  EXPECT_EQ(sweeps_->Get(third).value().row.job.message, holder);
}

TEST_F(SweepsTest, FinishedSweepKeepsItsCountsAcrossARestart) {
  const int64_t id = Submit("cpu");
  gate_->Open();
  AwaitEnd(id);
  Restart({});
  SweepView view = sweeps_->Get(id).value();
  EXPECT_EQ(view.progress.done, 5u);
  EXPECT_EQ(view.progress.space_size, 10u);
  EXPECT_TRUE(gate_->started().empty()) << "it is not run again";
}

TEST_F(SweepsTest, SameKeyIsTheSameSweep) {
  const int64_t id = sweeps_->Submit(MakeSubmission("cpu", "key")).value().row.id;
  EXPECT_EQ(sweeps_->Submit(MakeSubmission("cpu", "key")).value().row.id, id);
  EXPECT_NE(sweeps_->Submit(MakeSubmission("cpu", "other")).value().row.id, id);
  gate_->Open();
  AwaitEnd(id);
  EXPECT_EQ(sweeps_->Submit(MakeSubmission("cpu", "key")).value().row.id, id)
      << "also when finished";
  Restart({});
  EXPECT_EQ(sweeps_->Submit(MakeSubmission("cpu", "key")).value().row.job.state,
            db::JobState::kDone);
}

TEST_F(SweepsTest, SameKeyWithAnotherPriorIsRefused) {
  Submission asked = MakeSubmission("cpu", "alice/key");
  asked.search.prior_digest = "one";
  Submission other = asked;
  other.search.prior_digest = "two";
  const int64_t id = sweeps_->Submit(asked).value().row.id;
  EXPECT_EQ(sweeps_->Submit(asked).value().row.id, id);
  EXPECT_TRUE(absl::IsAlreadyExists(sweeps_->Submit(other).status()));
  gate_->Open();
  AwaitEnd(id);
  Restart({});
  EXPECT_EQ(sweeps_->Submit(asked).value().row.id, id);
  EXPECT_TRUE(absl::IsAlreadyExists(sweeps_->Submit(other).status()));
}

TEST_F(SweepsTest, PriorsCountAmongTheSourcesThatAPrincipalsJobsHold) {
  scheduler_options_.is_operator = [](const std::string& owner) { return owner == "root"; };
  Restart({});
  WarmStart prior;
  prior.prior.resize(1);
  prior.prior[0].config.entries = {{"THREADS", std::string(size_t{30} << 20, 'x')}};
  Submission asked = MakeSubmission("cpu");
  asked.sweep.job.owner = "a";
  asked.search.prior = std::make_shared<const WarmStart>(std::move(prior));
  const int64_t first = sweeps_->Submit(asked).value().row.id;
  EXPECT_TRUE(sweeps_->Submit(asked).ok());
  const absl::Status refused = sweeps_->Submit(asked).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("MiB of sources"));
  Submission of_other = asked;
  of_other.sweep.job.owner = "b";
  EXPECT_TRUE(sweeps_->Submit(of_other).ok());
  gate_->Open();
  AwaitEnd(first);
  EXPECT_TRUE(sweeps_->Submit(asked).ok());
  EXPECT_EQ(sweeps_->Get(first)->search.prior, nullptr) << "its memory is free";
}

TEST_F(SweepsTest, FullQueueRefuses) {
  Restart({}, /*unfinished_max=*/2);
  const int64_t id = sweeps_->Submit(MakeSubmission("cpu", "key")).value().row.id;
  Submit("cpu");
  EXPECT_TRUE(absl::IsResourceExhausted(sweeps_->Submit(MakeSubmission("cpu")).status()));
  EXPECT_EQ(sweeps_->Submit(MakeSubmission("cpu", "key")).value().row.id, id);
  ASSERT_TRUE(Cancel(id, absl::Now() + absl::Seconds(30)).ok());
  EXPECT_TRUE(sweeps_->Submit(MakeSubmission("cpu")).ok());
}

TEST_F(SweepsTest, OldViewsAreReadFromTheStore) {
  Restart({.views_kept_max = 1});
  gate_->Open();
  std::vector<int64_t> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(Submit("cpu"));
  for (int64_t id : ids) EXPECT_EQ(AwaitEnd(id).progress.done, 5u);
}

TEST_F(SweepsTest, ASweepThatDaemonsDieWithFailsAndIsNotRunAgain) {
  const int64_t killer = Submit("cpu");
  const int64_t other = Submit("cpu");
  gate_->AwaitStarted(1);
  DieRunning(killer);
  Restart({.left = {.deaths_max = 2}});
  EXPECT_EQ(store_->GetSweep(killer).value().job.deaths, 1u);
  gate_->AwaitStarted(1);
  EXPECT_EQ(gate_->started(), std::vector<int64_t>{other}) << "the one in doubt comes last";

  DieRunning(killer);
  Restart({.left = {.deaths_max = 2}});
  const SweepView failed = sweeps_->Get(killer).value();
  EXPECT_EQ(failed.row.job.state, db::JobState::kFailed);
  EXPECT_EQ(failed.row.job.deaths, 2u);
  EXPECT_THAT(failed.row.job.message, HasSubstr("2 daemons died while it ran"));
  EXPECT_THAT(failed.row.job.message, HasSubstr("submit it again"));
  EXPECT_GT(failed.row.job.finished_unix_ms, 0);
  gate_->Open();
  EXPECT_EQ(AwaitEnd(other).row.job.state, db::JobState::kDone);
  EXPECT_EQ(gate_->started(), std::vector<int64_t>{other});
}

TEST_F(SweepsTest, ADaemonThatStopsInOrderIsNoDeath) {
  const int64_t id = Submit("cpu");
  for (int i = 0; i < 5; ++i) {
    gate_->AwaitStarted(1);
    Restart({.left = {.deaths_max = 1}});
    EXPECT_EQ(store_->GetSweep(id).value().job.deaths, 0u);
  }
  gate_->Open();
  EXPECT_EQ(AwaitEnd(id).row.job.state, db::JobState::kDone);
}

TEST_F(SweepsTest, ADaemonThatStoppedInOrderOnAFullDiskIsNoDeath) {
  const int64_t id = Submit("cpu");
  gate_->AwaitStarted(1);
  DieRunning(id);  // as the row is left if it cannot be changed any more
  Restart({.left = {.deaths_max = 1, .ended_in_order = true}});
  EXPECT_EQ(store_->GetSweep(id).value().job.deaths, 0u);
  gate_->Open();
  EXPECT_EQ(AwaitEnd(id).row.job.state, db::JobState::kDone);
}

TEST_F(SweepsTest, ASweepWhoseRowMakesNoSenseStopsNobody) {
  const int64_t bad = Submit("cpu");
  const int64_t good = Submit("cuda:0");
  gate_->AwaitStarted(2);
  Stop();
  db::SweepRow row = store_->GetSweep(bad).value();
  row.summary = "{ no summary";
  ASSERT_TRUE(store_->UpdateSweep(row).ok());
  Restart({});
  gate_->Open();
  EXPECT_EQ(AwaitEnd(good).row.job.state, db::JobState::kDone);
  EXPECT_TRUE(absl::IsDataLoss(sweeps_->OfJob(row.job.id).status())) << "a list leaves it out";
  EXPECT_TRUE(absl::IsDataLoss(sweeps_->Get(bad).status())) << "whoever asks for it is told";
  const std::vector<db::UnreadableRow> rows = store_->UnreadableRows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].table, "sweep");
  EXPECT_EQ(rows[0].id, bad);
}

// Devices as a daemon knows them.
class AwayDevices {
 public:
  AwayDevices() { Set("cuda:0", "NVIDIA H200", DeviceState::kHealthy); }
  void Set(const std::string& id, const std::string& name, DeviceState state) {
    std::lock_guard lock(mutex_);
    DeviceStatus status{.id = id, .state = state, .message = "its canary failed"};
    status.info.name = name;
    std::erase_if(known_, [&](const DeviceStatus& one) { return one.id == id; });
    known_.push_back(std::move(status));
  }
  std::shared_ptr<const std::vector<DeviceStatus>> Known() const {
    std::lock_guard lock(mutex_);
    return std::make_shared<const std::vector<DeviceStatus>>(known_);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<DeviceStatus> known_;
};

class AwayTest : public SweepsTest {
 protected:
  // Of a device that is alike, or of several.
  int64_t SubmitTo(const std::vector<std::string>& ids) {
    Submission submission = MakeSubmission(ids.front());
    submission.device_ids = ids;
    submission.sweep.device_name = "NVIDIA H200";
    return sweeps_->Submit(submission).value().row.id;
  }
  Sweeps::Options Options() {
    return {.known_devices = [this] { return devices_.Known(); }};
  }
  AwayDevices devices_;
};

TEST_F(AwayTest, ASweepWaitsUntilItsDeviceIsHealthyAndSaysWhy) {
  Restart(Options());
  devices_.Set("cuda:0", "NVIDIA H200", DeviceState::kQuarantined);
  const int64_t id = SubmitTo({"cuda:0"});
  absl::SleepFor(absl::Milliseconds(1500));
  const SweepView waiting = sweeps_->Get(id).value();
  EXPECT_EQ(ToProto(waiting).state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(waiting.row.job.message, "waiting: device cuda:0 cannot be used: its canary failed");
  EXPECT_TRUE(gate_->started().empty());
  Restart(Options());
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_TRUE(gate_->started().empty()) << "also when a daemon takes it up";
  devices_.Set("cuda:0", "NVIDIA H200", DeviceState::kHealthy);
  gate_->Open();
  EXPECT_EQ(AwaitEnd(id).row.job.state, db::JobState::kDone);
  EXPECT_EQ(AwaitEnd(id).row.job.message, "");
}

TEST_F(AwayTest, ASweepThatWaitsForItsDeviceIsCancelled) {
  Restart(Options());
  const int64_t id = SubmitTo({"cuda:7"});
  EXPECT_EQ(sweeps_->Get(id)->row.job.message, "waiting: device cuda:7 is not there");
  ASSERT_TRUE(Cancel(id, absl::Now() + absl::Seconds(30)).ok());
  EXPECT_EQ(store_->GetSweep(id)->job.state, db::JobState::kCancelled);
}

TEST_F(AwayTest, AnyDeviceStaysAnyOverARestart) {
  Restart(Options());
  devices_.Set("cuda:1", "NVIDIA H200", DeviceState::kHealthy);
  devices_.Set("cuda:2", "NVIDIA H200", DeviceState::kHealthy);
  const int64_t id = SubmitTo({"cuda:0", "cuda:1", "cuda:2"});
  gate_->AwaitStarted(1);
  Stop();
  devices_.Set("cuda:0", "NVIDIA H200", DeviceState::kUnavailable);
  devices_.Set("cuda:1", "NVIDIA H100", DeviceState::kHealthy);
  Restart(Options());
  gate_->AwaitStarted(1);
  EXPECT_EQ(sweeps_->Get(id)->row.job.device_id, "cuda:2");
  gate_->Open();
  EXPECT_EQ(AwaitEnd(id).row.job.state, db::JobState::kDone);
}

TEST_F(AwayTest, OthersAreNotHeldUpByWhoWaitsForADevice) {
  Restart(Options());
  devices_.Set("cuda:1", "NVIDIA H200", DeviceState::kQuarantined);
  SubmitTo({"cuda:1"});
  const int64_t other = SubmitTo({"cuda:1", "cuda:0"});
  gate_->Open();
  EXPECT_EQ(AwaitEnd(other).row.job.state, db::JobState::kDone);
}

TEST_F(SweepsTest, TheEndOfASweepWaitsForSpaceAndNothingIsToldBefore) {
  const int64_t running = Submit("cpu");
  const int64_t waiting = Submit("cpu");
  gate_->AwaitStarted(1);
  disk_.write_error = ENOSPC;
  const absl::Status refused = Cancel(waiting, absl::Now() + absl::Seconds(5)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("free some space"));
  EXPECT_EQ(sweeps_->Submit(MakeSubmission("cpu")).status().code(),
            absl::StatusCode::kResourceExhausted);
  gate_->Open();
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (sweeps_->Get(running).value().row.job.message.find("not stored yet") ==
         std::string::npos) {
    ASSERT_LT(absl::Now(), deadline) << "its end is told to wait";
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_FALSE(db::IsFinished(sweeps_->Get(running).value().row.job.state));
  disk_.write_error = 0;
  EXPECT_EQ(AwaitEnd(running).row.job.state, db::JobState::kDone);
  EXPECT_EQ(AwaitEnd(waiting).row.job.state, db::JobState::kCancelled) << "it did not run";
  EXPECT_EQ(store_->GetSweep(running).value().job.state, db::JobState::kDone);
}

}  // namespace
}  // namespace tune::server
