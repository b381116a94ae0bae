// SPDX-License-Identifier: Apache-2.0
// A daemon keeps things in two places: in memory and in its store, or in memory and in a file. With
// a fault between the two, a change is in both or in neither, and who asked for it is told which.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "db/store.h"
#include "server/artifacts/artifact_folder.h"
#include "server/records/record_book.h"
#include "server/snapshots/snapshot_folder.h"
#include "server/sweep/sweeps.h"
#include "server/wire/spec.h"
#include "tests/db/faulty_disk.h"
#include "tests/server/scripted_gpus.h"

namespace tune::server {
namespace {

using testing::HasSubstr;

constexpr char kSpec[] = R"spec(
name: "mine" source: "k.cu" entry: "k"
dims { name: "n" default_value: 1000 }
dtypes: "f32"
params { name: "THREADS" values: "[32, 64]" default_value: "32" }
args { name: "y" buffer { dtype: "f32" shape: "n" role: ROLE_OUTPUT } }
launch { grid: "1" block: "THREADS" }
work { flops: "n" bytes: "8 * n" peak: "'f32'" }
reference { entry: "r" launch { grid: "1" block: "1" } }
)spec";
constexpr char kDevice[] = "NVIDIA Test GPU";

class BothOrNeitherTest : public testing::Test {
 protected:
  BothOrNeitherTest() {
    workers_ = gpus_.StartWorkers();
    Start();
    const std::map<std::string, std::string> files = {{"k.cu", "text"}};
    hash_ = ReadKernel("mine.textproto", kSpec, files).value()->hash();
    kernel_ = {.hash = hash_,
               .name = "mine",
               .spec_name = "mine.textproto",
               .spec_text = kSpec,
               .files = files};
    EXPECT_TRUE(store_->PutKernel(kernel_).ok());
  }
  ~BothOrNeitherTest() override { Stop(); }

  void Start() {
    store_ = db::Store::Open(gpus_.Path("tune.db"), {.patience = absl::Milliseconds(300)}).value();
    devices_ = std::make_unique<Devices>(*workers_, *store_, ProbeTime::kWhenAsked);
    book_ = RecordBook::Open(*store_, catalogue_, *devices_, solver_).value();
    scheduler_ =
        std::make_unique<Scheduler>(Scheduler::Options(), *store_, turns_, ticker_, DeviceCare());
    sweeps_ = Sweeps::Start({}, *store_, *scheduler_, [this](SweepWork&, JobContext& context) {
                while (!let_go_ && !context.stop()) absl::SleepFor(absl::Milliseconds(2));
                return JobWork::End{.interrupted = context.stop() && !let_go_};
              }).value();
  }
  void Stop() {
    Mend();
    if (scheduler_ != nullptr) scheduler_->Stop();
    sweeps_.reset();
    scheduler_.reset();
    book_.reset();
    devices_.reset();
    store_.reset();
  }
  void Mend() {
    disk_.write_error = disk_.sync_error = 0;
    disk_.Release();
  }

  // A sweep that runs nowhere, with a confirmed winner.
  std::pair<lookup::Record, db::SweepRow> Confirmed() {
    db::SweepRow sweep{.job = {.state = db::JobState::kRunning},
                       .kernel_hash = hash_,
                       .kernel_name = "mine",
                       .problem = {.dims = {{"n", 1000}}, .dtype = DType::kF32},
                       .device_name = kDevice,
                       .target = "sm_90a",
                       .strategy = "auto"};
    sweep = store_->AddSweep(sweep).value();
    lookup::Record record{.key = {.kernel_hash = hash_,
                                  .problem = sweep.problem,
                                  .device_name = kDevice,
                                  .target = "sm_90a"},
                          .kernel_name = "mine"};
    record.trial = {.sweep_id = sweep.id, .purpose = TrialPurpose::kConfirm};
    record.trial.config.entries = {{"THREADS", int64_t{64}}};
    record.trial.measurement.latency_ns_median = 1000;
    record.trial.id = store_->AppendTrial(record.trial, record.key).value();
    sweep.best_trial_id = record.trial.id;
    sweep.job.state = db::JobState::kDone;
    return {record, sweep};
  }
  Submission MakeSubmission() const {
    Submission submission{.kernel = kernel_, .space_size = 2};
    submission.sweep.kernel_hash = hash_;
    submission.sweep.kernel_name = "mine";
    submission.sweep.job = {.kind = db::JobKind::kSweep, .device_id = "cpu"};
    submission.device_ids = {"cpu"};
    return submission;
  }
  size_t InMemory() const { return book_->snapshot()->Records("mine").size(); }
  size_t InStore() { return store_->RecordsAfter(0)->size(); }
  db::JobState StateInStore(int64_t sweep) { return store_->GetSweep(sweep)->job.state; }
  db::JobState StateInMemory(int64_t sweep) { return sweeps_->Get(sweep)->row.job.state; }
  void AwaitMessage(int64_t sweep, const std::string& part) {
    const absl::Time limit = absl::Now() + absl::Seconds(30);
    while (!absl::StrContains(sweeps_->Get(sweep)->row.job.message, part)) {
      ASSERT_LT(absl::Now(), limit) << sweeps_->Get(sweep)->row.job.message;
      absl::SleepFor(absl::Milliseconds(5));
    }
  }
  void AwaitEnd(int64_t sweep) {
    const absl::Time limit = absl::Now() + absl::Seconds(30);
    while (!db::IsFinished(StateInMemory(sweep)) && absl::Now() < limit) {
      absl::SleepFor(absl::Milliseconds(5));
    }
  }

  struct Fault {
    const char* name;
    std::function<void(db::FaultyDisk&)> begin;
    bool may_be_stored;  // DEADLINE_EXCEEDED: the call does not know
  };
  static std::vector<Fault> Faults() {
    return {{"full", [](db::FaultyDisk& disk) { disk.write_error = ENOSPC; }, false},
            {"sync fails", [](db::FaultyDisk& disk) { disk.sync_error = EIO; }, false},
            {"hangs", [](db::FaultyDisk& disk) { disk.HangSyncs(); }, true}};
  }

  db::FaultyDisk disk_;
  ScriptedGpus gpus_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<db::Store> store_;
  std::unique_ptr<Devices> devices_;
  Catalogue catalogue_;
  SpaceSolver solver_;
  std::unique_ptr<RecordBook> book_;
  WatchTicker ticker_{{.period = absl::Milliseconds(20)}};
  DeviceTurns turns_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Sweeps> sweeps_;
  std::atomic<bool> let_go_ = false;
  db::KernelRow kernel_;
  std::string hash_;
};

TEST_F(BothOrNeitherTest, ARecordIsAnsweredFromIfItIsStored) {
  size_t count = 0;
  for (const Fault& fault : Faults()) {
    const auto [record, done] = Confirmed();
    fault.begin(disk_);
    const absl::Status failed = book_->Publish(record, &done);
    EXPECT_EQ(absl::IsDeadlineExceeded(failed), fault.may_be_stored) << fault.name << failed;
    EXPECT_FALSE(failed.ok()) << fault.name;
    Mend();
    if (!fault.may_be_stored) {
      EXPECT_EQ(InStore(), count) << fault.name;
      EXPECT_EQ(StateInStore(done.id), db::JobState::kRunning) << fault.name;
      EXPECT_EQ(InMemory(), count > 0 ? 1 : 0) << fault.name;
    }
    EXPECT_TRUE(book_->Publish(record, &done).ok()) << fault.name;
    EXPECT_EQ(InStore(), ++count) << fault.name << ": once, however often it was asked for";
    EXPECT_EQ(InMemory(), 1u) << fault.name;
    EXPECT_EQ(book_->snapshot()->Records("mine").front()->trial.id, record.trial.id);
    EXPECT_EQ(StateInStore(done.id), db::JobState::kDone) << fault.name;
  }
}

// Its kernel cannot be read, so look-ups would not know it: then it is not stored either.
TEST_F(BothOrNeitherTest, ARecordWhoseKernelCannotBeReadIsNotStored) {
  auto [record, done] = Confirmed();
  disk_.read_error = EIO;
  const absl::Status failed = book_->Publish(record, &done);
  disk_.read_error = 0;
  if (failed.ok()) GTEST_SKIP() << "the page was in a cache";
  EXPECT_EQ(InStore(), 0u);
  EXPECT_EQ(StateInStore(done.id), db::JobState::kRunning);
}

TEST_F(BothOrNeitherTest, TheEndOfAJobIsToldOnceItIsStored) {
  for (const Fault& fault : Faults()) {
    let_go_ = false;
    const int64_t id = sweeps_->Submit(MakeSubmission())->row.id;
    const absl::Time limit = absl::Now() + absl::Seconds(30);
    while (StateInStore(id) != db::JobState::kRunning && absl::Now() < limit) {
      absl::SleepFor(absl::Milliseconds(2));
    }
    fault.begin(disk_);
    let_go_ = true;
    AwaitMessage(id, "not stored yet");
    EXPECT_FALSE(db::IsFinished(StateInMemory(id))) << fault.name;
    Mend();
    AwaitEnd(id);
    EXPECT_EQ(StateInMemory(id), db::JobState::kDone) << fault.name;
    EXPECT_EQ(StateInStore(id), db::JobState::kDone) << fault.name;
  }
}

// The daemon stops while the end of a job cannot be stored: nobody is told an end.
TEST_F(BothOrNeitherTest, AnEndThatIsNotStoredWhenTheDaemonStopsIsToldToNobody) {
  const db::SweepRow sweep = sweeps_->Submit(MakeSubmission())->row;
  const int64_t id = sweep.id;
  const std::shared_ptr<Job> job = scheduler_->Find(sweep.job.id);
  const absl::Time limit = absl::Now() + absl::Seconds(30);
  while (StateInStore(id) != db::JobState::kRunning && absl::Now() < limit) {
    absl::SleepFor(absl::Milliseconds(2));
  }
  disk_.write_error = ENOSPC;
  let_go_ = true;
  AwaitMessage(id, "not stored yet");
  scheduler_->Stop();
  EXPECT_FALSE(db::IsFinished(job->view().row.state));
  EXPECT_THAT(job->view().row.message, HasSubstr("not stored yet"));
  disk_.write_error = 0;
  EXPECT_EQ(StateInStore(id), db::JobState::kRunning) << "the next daemon takes it up";
}

TEST_F(BothOrNeitherTest, ASweepIsQueuedIfItIsStored) {
  for (const Fault& fault : Faults()) {
    const size_t stored = store_->ListSweeps(100)->size();
    fault.begin(disk_);
    EXPECT_FALSE(sweeps_->Submit(MakeSubmission()).ok()) << fault.name;
    EXPECT_EQ(scheduler_->counts().queued + scheduler_->counts().running, 0u) << fault.name;
    Mend();
    if (!fault.may_be_stored) {
      EXPECT_EQ(store_->ListSweeps(100)->size(), stored) << fault.name;
    }
  }
}

// It does not run meanwhile, and nobody has to ask a second time.
TEST_F(BothOrNeitherTest, AJobIsCancelledIfThatIsStored) {
  for (const Fault& fault : Faults()) {
    let_go_ = false;
    const int64_t running = sweeps_->Submit(MakeSubmission())->row.id;
    const db::SweepRow submitted = sweeps_->Submit(MakeSubmission())->row;
    const int64_t waiting = submitted.id;
    const absl::Time limit = absl::Now() + absl::Seconds(30);
    while (StateInStore(running) != db::JobState::kRunning && absl::Now() < limit) {
      absl::SleepFor(absl::Milliseconds(2));
    }
    fault.begin(disk_);
    const absl::Time deadline = absl::Now() + absl::Seconds(5);
    EXPECT_FALSE(scheduler_->Cancel(submitted.job.id, deadline).ok()) << fault.name;
    EXPECT_FALSE(db::IsFinished(StateInMemory(waiting))) << fault.name;
    Mend();
    AwaitEnd(waiting);
    EXPECT_EQ(StateInMemory(waiting), db::JobState::kCancelled) << fault.name;
    EXPECT_EQ(StateInStore(waiting), db::JobState::kCancelled) << fault.name;
    let_go_ = true;
    AwaitEnd(running);
  }
}

TEST_F(BothOrNeitherTest, TheSourcesOfAKernelAreKeptWithItsOwnerOrNotAtAll) {
  db::KernelRow other = kernel_;
  other.hash = "other";
  EXPECT_TRUE(absl::IsResourceExhausted(store_->KeepKernel("alice", other, /*bytes_max=*/10)));
  EXPECT_TRUE(absl::IsNotFound(store_->GetKernel("other").status()));
  disk_.write_error = ENOSPC;
  EXPECT_FALSE(store_->KeepKernel("alice", other, 1 << 20).ok());
  disk_.write_error = 0;
  EXPECT_TRUE(absl::IsNotFound(store_->GetKernel("other").status()));
  EXPECT_TRUE(store_->KeepKernel("alice", other, 1 << 20).ok());
  EXPECT_TRUE(store_->GetKernel("other").ok());
}

// A snapshot that cannot be written is not the newest; an artifact is there before its record.
TEST_F(BothOrNeitherTest, AFileThatCannotBeWrittenIsNotListed) {
  const std::string path = gpus_.Path("snapshots");
  const auto snapshots =
      SnapshotFolder::Open(path, SnapshotFolder::Use::kWrite, /*kept=*/4).value();
  const auto artifacts =
      ArtifactFolder::Open(path, ArtifactFolder::Use::kWrite, /*bytes_max=*/1 << 20).value();
  const std::string aside = path + ".aside";
  std::filesystem::rename(path, aside);
  EXPECT_FALSE(snapshots->PutNewest("{}").ok());
  EXPECT_TRUE(snapshots->List().empty());
  EXPECT_FALSE(artifacts->Put("an artifact").ok());
  std::filesystem::rename(aside, path);
  EXPECT_TRUE(snapshots->List().empty());
  EXPECT_TRUE(artifacts->Put("an artifact").ok());
  // Its own name is there; the newest's cannot be given.
  std::filesystem::create_directories(path + "/latest/in the way");
  EXPECT_FALSE(snapshots->PutNewest("{}").ok());
  EXPECT_FALSE(snapshots->Find("").ok());
  std::filesystem::remove_all(path + "/latest");
}

}  // namespace
}  // namespace tune::server
