// SPDX-License-Identifier: Apache-2.0
// The store reports a disk that fails, hangs or forgets, and rows that do not parse.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <functional>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "db/log_check.h"
#include "db/sqlite_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/db/faulty_disk.h"
#include "tests/db/rows_to_store.h"

namespace tune::db {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

absl::StatusOr<int64_t> Append(Store& store, int64_t sweep_id, int64_t block) {
  return store.AppendTrial(MakeTrial(sweep_id, block), MakeTrialKey("k1"));
}

class FaultyDiskTest : public StoreTest {
 protected:
  ~FaultyDiskTest() override {
    disk_.Release();
    store_.reset();  // before the disk
  }
  std::set<int64_t> Stored() {
    std::set<int64_t> ids;
    const std::vector<Trial> trials = store_->TrialsOfSweep(sweep_.id).value();
    for (const Trial& trial : trials) ids.insert(trial.id);
    return ids;
  }

  FaultyDisk disk_;
};

// Each fault: nothing acknowledged is lost, reads go on, and so do writes once it is over.
TEST_F(FaultyDiskTest, WritesFailWithAReasonAndGoOnAfterwards) {
  struct {
    const char* name;
    std::atomic<int>* where;
    int error;
    absl::StatusCode code;
    const char* advice;
  } const faults[] = {
      {"full", &disk_.write_error, ENOSPC, absl::StatusCode::kResourceExhausted, "free some space"},
      {"quota", &disk_.write_error, EDQUOT, absl::StatusCode::kResourceExhausted,
       "free some space"},
      {"I/O error", &disk_.write_error, EIO, absl::StatusCode::kUnavailable,
       "see the kernel's log"},
      {"sync fails", &disk_.sync_error, EIO, absl::StatusCode::kUnavailable,
       "see the kernel's log"},
      {"read-only", &disk_.write_error, EROFS, absl::StatusCode::kPermissionDenied,
       "mount it writable"},
  };
  Store& store = OpenWithSweep();
  std::set<int64_t> acknowledged;
  int64_t block = 0;
  for (const auto& fault : faults) {
    acknowledged.insert(Append(store, sweep_.id, ++block).value());
    *fault.where = fault.error;
    for (int i = 0; i < 3; ++i) {
      const absl::Status status = Append(store, sweep_.id, ++block).status();
      EXPECT_EQ(status.code(), fault.code) << fault.name << ": " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(fault.advice)) << fault.name;
      EXPECT_EQ(Stored(), acknowledged) << fault.name << ": reads go on";
    }
    *fault.where = 0;
    acknowledged.insert(Append(store, sweep_.id, ++block).value());
    EXPECT_EQ(Stored(), acknowledged) << fault.name;
  }
  Reopen();
  EXPECT_EQ(Stored(), acknowledged) << "after all of it";
}

TEST_F(FaultyDiskTest, TheStoreRecoversAfterAFailedRead) {
  Store& store = OpenWithSweep();
  ASSERT_TRUE(Append(store, sweep_.id, 1).ok());
  Reopen();  // nothing is in SQLite's caches
  disk_.read_error = EIO;
  const absl::Status status = store_->TrialsOfSweep(sweep_.id).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  disk_.read_error = 0;
  EXPECT_THAT(Stored(), SizeIs(1));
}

// The disk hangs in the middle of a sync: nobody waits for ever, whoever waits.
TEST_F(FaultyDiskTest, WritesTimeOutIfTheDiskHangs) {
  OpenWithSweep();
  store_.reset();
  store_ = Store::Open(path(), {.patience = absl::Milliseconds(300)}).value();
  disk_.HangSyncs();
  auto first = std::async(std::launch::async, [&] { return Append(*store_, sweep_.id, 1); });
  disk_.AwaitHanging();
  const absl::Time start = absl::Now();
  const absl::Status second = Append(*store_, sweep_.id, 2).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable) << second;
  EXPECT_THAT(std::string(second.message()),
              AllOf(HasSubstr("nothing of it was stored"), HasSubstr("disk of the state folder")));
  const absl::Status stuck = first.get().status();
  EXPECT_EQ(stuck.code(), absl::StatusCode::kDeadlineExceeded) << stuck;
  EXPECT_THAT(std::string(stuck.message()), HasSubstr("it may still be stored"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  EXPECT_THAT(Stored(), IsEmpty()) << "reads go on";

  disk_.Release();
  ASSERT_TRUE(Append(*store_, sweep_.id, 3).ok());
  std::vector<Config> configs;
  const std::vector<Trial> trials = store_->TrialsOfSweep(sweep_.id).value();
  for (const Trial& trial : trials) configs.push_back(trial.config);
  EXPECT_THAT(configs, ElementsAre(MakeConfig(1), MakeConfig(3)))
      << "the second was given back, the first was only given up on";
}

TEST_F(FaultyDiskTest, WritesAreRefusedIfTheQueueIsFull) {
  OpenWithSweep();
  store_.reset();
  store_ = Store::Open(path(), {.patience = absl::Seconds(60)}).value();
  disk_.HangSyncs();
  auto first = std::async(std::launch::async, [&] { return Append(*store_, sweep_.id, 0); });
  disk_.AwaitHanging();
  constexpr int kWriters = 1100;  // the queue has 1024 places
  std::atomic<int> refused{0};
  std::atomic<int> stored{0};
  std::vector<std::thread> writers;
  for (int i = 1; i <= kWriters; ++i) {
    writers.emplace_back([&, i] {
      const absl::Status status = Append(*store_, sweep_.id, i).status();
      if (absl::IsUnavailable(status)) ++refused;
      if (status.ok()) ++stored;
    });
  }
  while (refused < kWriters - 1024) absl::SleepFor(absl::Milliseconds(1));
  disk_.Release();
  for (std::thread& writer : writers) writer.join();
  EXPECT_TRUE(first.get().ok());
  EXPECT_EQ(refused + stored, kWriters);
  EXPECT_EQ(refused, kWriters - 1024);
  EXPECT_THAT(Stored(), SizeIs(1025));
}

// A store that was killed leaves its log; this is such a one, with trials in it.
class LogTest : public StoreTest {
 protected:
  static constexpr int kTrials = 30;

  LogTest() {
    const pid_t child = fork();
    if (child == 0) {
      Store& store = OpenWithSweep();
      for (int i = 0; i < kTrials; ++i) {
        if (!Append(store, sweep_.id, i).ok()) _exit(1);
      }
      _exit(0);  // without closing anything
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    sweep_.id = 1;
  }
  std::string log() const { return path() + "-wal"; }
  void Flip(std::streamoff at) {
    std::fstream file(log(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char byte = static_cast<char>(file.get() ^ 0x40);
    file.seekp(at);
    file.put(byte);
  }
  void ExpectRefused(const std::string& what) {
    const absl::Status status = Store::Open(path()).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << what << ": " << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("-wal"), HasSubstr("backup"), HasSubstr("--drop-damaged-log")))
        << what;
  }
};

TEST_F(LogTest, AWholeLogIsRead) {
  EXPECT_FALSE(ReadLog(path()).value().damaged());
  EXPECT_THAT(Reopen().TrialsOfSweep(1).value(), SizeIs(kTrials));
  store_.reset();
  EXPECT_EQ(ReadLog(path()).value().committed, 0u) << "closed in order";
}

TEST_F(LogTest, WithoutItsIndexAWholeLogIsReadToo) {
  std::filesystem::remove(path() + "-shm");
  EXPECT_THAT(Reopen().TrialsOfSweep(1).value(), SizeIs(kTrials));
}

TEST_F(LogTest, DamageAnywhereIsNoticedAndNothingIsTouched) {
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(log()));
  for (const std::streamoff at : {std::streamoff{3}, std::streamoff{20}, std::streamoff{40},
                                  size / 3, size / 2, size - 1, size - 4100}) {
    Flip(at);
    ExpectRefused(absl::StrCat("byte ", at, " of ", size));
    Flip(at);  // as it was
  }
  EXPECT_THAT(Reopen().TrialsOfSweep(1).value(), SizeIs(kTrials)) << "refusing has lost nothing";
}

TEST_F(LogTest, DamageInTheMiddleIsNoticedWithoutTheIndex) {
  std::filesystem::remove(path() + "-shm");
  Flip(static_cast<std::streamoff>(std::filesystem::file_size(log())) / 2);
  ExpectRefused("the middle");
}

TEST_F(LogTest, ALogThatIsShorterOrGoneIsNoticed) {
  std::filesystem::resize_file(log(), std::filesystem::file_size(log()) / 2);
  ExpectRefused("half of it");
  std::filesystem::remove(log());
  ExpectRefused("gone");
}

// A write that a crash cut short was never acknowledged.
TEST_F(LogTest, ATornEndIsNoDamage) {
  std::ofstream(log(), std::ios::binary | std::ios::app) << std::string(3000, '\x5a');
  EXPECT_THAT(Reopen().TrialsOfSweep(1).value(), SizeIs(kTrials));
}

TEST_F(LogTest, DropDamagedLogKeepsTheReadablePartAndACopy) {
  const auto size = std::filesystem::file_size(log());
  Flip(static_cast<std::streamoff>(size) / 2);
  absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(path(), {.drop_damaged_log = true});
  ASSERT_TRUE(store.ok()) << store.status();
  const size_t left = (*store)->TrialsOfSweep(1).value().size();
  EXPECT_GT(left, 0u);
  EXPECT_LT(left, static_cast<size_t>(kTrials));
  ASSERT_THAT((*store)->UnreadableRows(), SizeIs(1));
  EXPECT_THAT((*store)->UnreadableRows()[0].why, HasSubstr("committed pages are lost"));
  EXPECT_TRUE(Append(**store, 1, 1000).ok());
  store->reset();
  EXPECT_THAT(Reopen().TrialsOfSweep(1).value(), SizeIs(left + 1));
  bool copied = false;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    copied = copied || (entry.path().string().find("-wal.damaged-") != std::string::npos &&
                        entry.file_size() == size);
  }
  EXPECT_TRUE(copied);
}

constexpr char kGood[] = "as it should be";

// In a process of its own, which tells what is wrong.
std::string InChild(const std::function<std::string()>& check) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    const std::string said = check();
    _exit(write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size()) ? 0 : 3);
  }
  close(ends[1]);
  char buffer[4096];
  const ssize_t size = read(ends[0], buffer, sizeof(buffer));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) return absl::StrCat("it ended with ", status);
  return std::string(buffer, static_cast<size_t>(std::max<ssize_t>(size, 0)));
}

// A file system of 2 MiB, of this process alone. False: this user may not mount.
bool MountSmall(const std::string& folder) {
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=2m") == 0;
}

std::string FillASmallFileSystem(const std::string& folder, const std::string& path) {
  if (!MountSmall(folder)) return "cannot mount";
  const std::string ballast = folder + "/ballast";
  std::ofstream(ballast) << std::string(512 << 10, 'b');
  const std::unique_ptr<Store> store = Store::Open(path).value();
  if (!store->PutKernel(MakeKernelRow("k1")).ok()) return "kernel";
  const int64_t sweep_id = store->AddSweep(MakeSweepRow("k1")).value().id;
  Trial trial = MakeTrial(sweep_id);
  trial.measurement.samples_ns.assign(2000, 1.0);
  size_t stored = 0;
  absl::Status status;
  while (stored < 1000 && status.ok()) {
    status = store->AppendTrial(trial, MakeTrialKey("k1")).status();
    stored += status.ok();
  }
  if (!absl::IsResourceExhausted(status)) return status.ToString();
  if (stored == 0) return "nothing fits";
  if (store->TrialsOfSweep(sweep_id).value().size() != stored) return "reads see another number";
  std::filesystem::remove(ballast);
  status = store->AppendTrial(trial, MakeTrialKey("k1")).status();
  if (!status.ok()) return absl::StrCat("with space again: ", status.ToString());
  return store->TrialsOfSweep(sweep_id).value().size() == stored + 1 ? kGood : "lost trials";
}

TEST_F(StoreFileTest, AFullFileSystemStopsWritesUntilThereIsSpace) {
  const std::string said = InChild([this] { return FillASmallFileSystem(folder_, path()); });
  if (said == "cannot mount") GTEST_SKIP() << said;
  EXPECT_EQ(said, kGood);
}

// Root does not notice that a folder is read-only.
void BecomeNobody() {
  if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(2);
}

TEST_F(StoreFileTest, OpenFailsWithPermissionDeniedInAReadOnlyFolder) {
  OpenWithSweep();
  store_.reset();
  const auto open = [this]() -> std::string {
    BecomeNobody();
    const absl::Status status = Store::Open(path()).status();
    const std::string message(status.message());
    const bool good = absl::IsPermissionDenied(status) &&
                      message.find(folder_) != std::string::npos &&
                      message.find("must be writable") != std::string::npos;
    return good ? kGood : status.ToString();
  };
  ASSERT_EQ(chmod(folder_.c_str(), 0555), 0);
  for (const char* file : {"/tune.db", "/tune.db.lock"}) {
    ASSERT_EQ(chmod((folder_ + file).c_str(), 0444), 0);
  }
  EXPECT_EQ(InChild(open), kGood);
  std::filesystem::remove(folder_ + "/tune.db.lock");
  EXPECT_EQ(InChild(open), kGood);
  // The lock can be had, the database cannot be written.
  std::ofstream(folder_ + "/tune.db.lock").close();
  ASSERT_EQ(chmod((folder_ + "/tune.db.lock").c_str(), 0666), 0);
  EXPECT_EQ(InChild(open), kGood);
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
}

void MustRun(const std::string& path, const char* sql) {
  auto connection = SqliteConnection::Open(path, SqliteConnection::Mode::kReadWriteCreate).value();
  const absl::Status status = connection->Execute(sql);
  ASSERT_TRUE(status.ok()) << status;
}

TEST_F(StoreFileTest, UnreadableRowsAreLeftOutAndListed) {
  Store& store = OpenWithSweep();
  SweepRow good = MakeSweepRow("k1");
  good.idempotency_key = "key 2";
  good.job.state = JobState::kQueued;
  ASSERT_TRUE(store.AddSweep(good).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Append(store, sweep_.id, i).ok());
  lookup::Record record{.key = MakeTrialKey("k1"), .kernel_name = "softmax"};
  record.trial.id = store.AppendTrial(MakeConfirmed(sweep_.id), record.key).value();
  ASSERT_TRUE(store.PublishRecord(record).ok());
  store_.reset();
  MustRun(path(),
          "UPDATE sweep SET dims = '{broken', tie_trial_ids = 'no list' WHERE id = 1;"
          "UPDATE job SET state = 2 WHERE id = (SELECT job_id FROM sweep WHERE id = 1);"
          "DROP TRIGGER trial_no_update; UPDATE trial SET config = 'not json' WHERE id = 2;");
  Store& again = Reopen();
  EXPECT_TRUE(again.RebuildRecords().ok());
  EXPECT_THAT(again.UnfinishedSweeps().value(), SizeIs(1));
  EXPECT_THAT(again.ListSweeps(10).value(), SizeIs(1));
  EXPECT_THAT(again.TrialsOfSweep(1).value(), SizeIs(3));
  EXPECT_THAT(again.TrialsOfKey(MakeTrialKey("k1")).value(), SizeIs(2));
  EXPECT_THAT(again.CurrentRecords().value(), SizeIs(1)) << "its sweep's row is damaged, not it";
  EXPECT_TRUE(absl::IsDataLoss(again.GetSweep(1).status())) << again.GetSweep(1).status();
  const std::vector<UnreadableRow> rows = again.UnreadableRows();
  ASSERT_THAT(rows, SizeIs(2)) << "each once";
  EXPECT_EQ(rows[0].table, "sweep");
  EXPECT_EQ(rows[0].id, 1);
  EXPECT_NE(rows[0].why, "");
  EXPECT_EQ(rows[1].table, "trial");
  EXPECT_EQ(rows[1].id, 2);
}

TEST_F(StoreFileTest, KnownTrialsAreTheNewestOfAtMostSoMany) {
  Store& store = OpenWithSweep();
  for (int i = 0; i < 10; ++i) {
    Trial trial = MakeTrial(sweep_.id, i);
    trial.message.assign(2000, 'm');
    ASSERT_TRUE(store.AppendTrial(trial, MakeTrialKey("k1")).ok());
  }
  for (const std::vector<Trial>& trials : {store.TrialsOfKey(MakeTrialKey("k1"), 3).value(),
                                           store.NewestOfSweep(sweep_.id, 3).value()}) {
    ASSERT_THAT(trials, SizeIs(3));
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(trials[i].config, MakeConfig(7 + i)) << "oldest first";
      EXPECT_THAT(trials[i].measurement.samples_ns, IsEmpty());
      EXPECT_EQ(trials[i].message.size(), 500u);
    }
  }
}

TEST_F(StoreFileTest, RemembersDeathsOfTheDaemon) {
  Store& store = OpenWithSweep();
  EXPECT_EQ(store.GetSweep(sweep_.id).value().job.deaths, 0u);
  sweep_.job.deaths = 2;
  ASSERT_TRUE(store.UpdateSweep(sweep_).ok());
  EXPECT_EQ(Reopen().GetSweep(sweep_.id).value().job.deaths, 2u);
}

}  // namespace
}  // namespace tune::db
