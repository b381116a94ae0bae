// SPDX-License-Identifier: Apache-2.0
// The store survives kills, full disks, damaged files and second openers.
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <random>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "db/checks.h"
#include "db/migrations.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/db/rows_to_store.h"

namespace tune::db {
namespace {

using testing::HasSubstr;

// Starts the appender on `path`, kills it once it has printed `kill_after` ids, and returns every
// id that it printed.
std::vector<int64_t> AppendUntilKilled(const std::string& path, size_t kill_after) {
  int pipe_ends[2];
  EXPECT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipe_ends[1], STDOUT_FILENO);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    execl(STORE_APPENDER, STORE_APPENDER, path.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(pipe_ends[1]);
  std::string printed;
  char buffer[4096];
  bool killed = false;
  ssize_t size;
  while ((size = read(pipe_ends[0], buffer, sizeof(buffer))) > 0) {
    printed.append(buffer, static_cast<size_t>(size));
    const auto lines = static_cast<size_t>(std::count(printed.begin(), printed.end(), '\n'));
    if (!killed && lines >= kill_after) {
      kill(child, SIGKILL);
      killed = true;
    }
  }
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(killed && WIFSIGNALED(status)) << "the appender ended by itself: " << status;
  std::vector<int64_t> ids;
  for (absl::string_view line : absl::StrSplit(printed, '\n', absl::SkipEmpty())) {
    EXPECT_TRUE(absl::SimpleAtoi(line, &ids.emplace_back()));
  }
  return ids;
}

TEST_F(StoreFileTest, KillsLoseNothingThatWasAcknowledged) {
  constexpr int kKills = 40;
  std::mt19937 random(20240607);
  std::set<int64_t> acknowledged;
  for (int i = 0; i < kKills; ++i) {
    for (int64_t id : AppendUntilKilled(path(), 1 + random() % 40)) acknowledged.insert(id);
    Store& store = Reopen();
    std::set<int64_t> stored;
    const std::vector<SweepRow> sweeps = store.ListSweeps(1).value();
    ASSERT_EQ(sweeps.size(), 1u);
    const std::vector<Trial> trials = store.TrialsOfSweep(sweeps[0].id).value();
    for (const Trial& trial : trials) stored.insert(trial.id);
    ASSERT_TRUE(
        std::includes(stored.begin(), stored.end(), acknowledged.begin(), acknowledged.end()))
        << "after kill " << i << " of " << kKills;
    store_.reset();
  }
  EXPECT_GE(acknowledged.size(), static_cast<size_t>(kKills));
}

// Runs in a process of its own: the limit holds for every file that a process writes. Returns
// without a failure message only if all is as it should be.
void FillTheDisk(const std::string& path, std::string& failure) {
  absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(path);
  if (!store.ok()) return void(failure = "open");
  if (!(*store)->PutKernel(MakeKernelRow("k1")).ok()) return void(failure = "kernel");
  const int64_t sweep_id = (*store)->AddSweep(MakeSweepRow("k1")).value().id;
  Trial trial = MakeTrial(sweep_id);
  trial.measurement.samples_ns.assign(2000, 1.0);
  auto append = [&] { return (*store)->AppendTrial(trial, MakeTrialKey("k1")).status(); };

  signal(SIGXFSZ, SIG_IGN);  // so that writing beyond the limit is an error and not the end
  const rlimit small = {.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY};
  const rlimit large = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &small);
  uint64_t stored = 0;
  absl::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    status = append();
    stored += status.ok();
  }
  if (!absl::IsResourceExhausted(status)) return void(failure = status.ToString());
  if (!absl::IsResourceExhausted(append())) return void(failure = "still full");
  absl::StatusOr<std::vector<Trial>> trials = (*store)->TrialsOfSweep(sweep_id);
  if (!trials.ok()) return void(failure = trials.status().ToString());
  if (trials->size() != stored) return void(failure = "reads see another number of trials");

  setrlimit(RLIMIT_FSIZE, &large);
  status = append();
  if (!status.ok()) return void(failure = absl::StrCat("after: ", status.ToString()));
  if ((*store)->Statistics()->trial_count != stored + 1) failure = "lost trials";
}

TEST_F(StoreFileTest, AFullDiskStopsWritesUntilThereIsSpace) {
  EXPECT_EXIT(
      {
        std::string failure;
        FillTheDisk(path(), failure);
        fprintf(stderr, "%s", failure.empty() ? "as it should be" : failure.c_str());
        _exit(failure.empty() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "as it should be");
  EXPECT_GT(Reopen().Statistics().value().trial_count, 0u);
}

TEST_F(StoreFileTest, ASecondOpenFailsAndNamesTheOwner) {
  Reopen();
  absl::Status status = Store::Open(path()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(" (process ", getpid())));
  const std::string link = absl::StrCat(folder_, "/link.db");
  std::filesystem::create_symlink(path(), link);
  EXPECT_TRUE(absl::IsFailedPrecondition(Store::Open(link).status())) << "by any name";
  store_.reset();
  EXPECT_TRUE(Store::Open(path()).ok()) << "free again once it is closed";
}

TEST_F(StoreFileTest, AFileOfGarbageIsDataLoss) {
  std::ofstream(path()) << std::string(8192, 'g');
  absl::Status status = Store::Open(path()).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path()));
  EXPECT_THAT(std::string(status.message()), HasSubstr("move the file aside"));
}

TEST_F(StoreFileTest, DamagedPagesAreDataLoss) {
  Store& store = OpenWithSweep();
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(store.AppendTrial(MakeTrial(sweep_.id, i), MakeTrialKey("k1")).ok());
  }
  store_.reset();
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(path()));
  std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(size / 2);
  file << std::string(16384, '\xa5');
  file.close();
  absl::Status status = Store::Open(path()).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

TEST_F(StoreFileTest, ATruncatedFileNeverCrashes) {
  OpenWithSweep();
  store_.reset();
  const uintmax_t size = std::filesystem::file_size(path());
  // The last page may end in zeros: a file that lacks one of them has lost nothing.
  std::filesystem::resize_file(path(), size - 1);
  absl::Status cut = Store::Open(path()).status();
  EXPECT_TRUE(cut.ok() || absl::IsDataLoss(cut)) << cut;
  for (uintmax_t keep : {size - 4096, size / 2, uintmax_t{4096}, uintmax_t{100}}) {
    std::filesystem::resize_file(path(), keep);
    absl::Status status = Store::Open(path()).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << keep << ": " << status;
  }
}

TEST_F(StoreFileTest, AMissingFolderAndAFolderAreNoFiles) {
  absl::Status missing = Store::Open(absl::StrCat(folder_, "/no/such/tune.db")).status();
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_TRUE(absl::IsInvalidArgument(Store::Open(folder_).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Store::Open(absl::StrCat(folder_, "/")).status()));
}

void Execute(const std::string& path, const char* sql) {
  auto connection = SqliteConnection::Open(path, SqliteConnection::Mode::kReadWriteCreate).value();
  ASSERT_TRUE(connection->Execute(sql).ok());
}

TEST_F(StoreFileTest, RefusesASchemaFromTheFuture) {
  Reopen();
  store_.reset();
  Execute(path(), "PRAGMA user_version = 99");
  absl::Status status = Store::Open(path()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("schema version 99"));
}

TEST_F(StoreFileTest, RefusesADatabaseOfAnotherProgram) {
  Execute(path(), "CREATE TABLE theirs (x)");
  absl::Status status = Store::Open(path()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("another program"));
}

TEST_F(StoreFileTest, AFailedMigrationLeavesTheFileAndABackup) {
  OpenWithSweep();
  store_.reset();
  auto connection =
      SqliteConnection::Open(path(), SqliteConnection::Mode::kReadWriteCreate).value();
  std::vector<absl::string_view> steps(SchemaSteps().begin(), SchemaSteps().end());
  const std::string version = absl::StrCat(NewestVersion());
  steps.push_back("ALTER TABLE kernel ADD COLUMN note TEXT; SELECT * FROM no_such_table;");
  absl::Status failed = Migrate(*connection, path(), steps);
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(absl::StrCat(connection->QueryInteger("PRAGMA user_version").value()), version);
  EXPECT_FALSE(connection->Execute("SELECT note FROM kernel").ok()) << "rolled back whole";

  steps.back() = "ALTER TABLE kernel ADD COLUMN note TEXT;";
  ASSERT_TRUE(Migrate(*connection, path(), steps).ok());
  EXPECT_TRUE(connection->Execute("SELECT note FROM kernel").ok());
  connection.reset();

  const std::string backup = absl::StrCat(path(), ".v", version, ".bak");
  absl::StatusOr<std::unique_ptr<Store>> old = Store::Open(backup);
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_TRUE((*old)->GetSweep(sweep_.id).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Store::Open(path()).status())) << "newer than we know";
}

TEST(NetworkFileSystemTest, KnowsThoseThatBreakLocks) {
  EXPECT_STREQ(NetworkFileSystemName(0x6969), "NFS");
  EXPECT_STREQ(NetworkFileSystemName(0xffffffffff534d42), "CIFS") << "sign-extended";
  EXPECT_STREQ(NetworkFileSystemName(0x65735546), "FUSE");
  EXPECT_STREQ(NetworkFileSystemName(0x0bd00bd0), "Lustre");
  EXPECT_EQ(NetworkFileSystemName(0xef53), nullptr) << "ext4";
  EXPECT_EQ(NetworkFileSystemName(0x01021994), nullptr) << "tmpfs";
}

}  // namespace
}  // namespace tune::db
