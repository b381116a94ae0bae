// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/worker_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "tests/server/supervision/scripted.h"

namespace tune::server {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using Kind = WorkerAnswer::Kind;

constexpr absl::Duration kLong = absl::Seconds(60);

worker::v1::WorkerRequest Compile(const std::string& behaviour) {
  worker::v1::WorkerRequest request;
  request.mutable_compile()->set_language(v1::CUDA);
  request.mutable_compile()->set_source_text(behaviour);
  return request;
}

class WorkerProcessTest : public testing::Test {
 protected:
  WorkerAnswer Ask(const std::string& behaviour, absl::Duration limit = kLong,
                   const Cancelled& cancelled = {}) {
    if (worker_ == nullptr) Start();
    return worker_->Call(Compile(behaviour), limit, cancelled);
  }
  void Start(const WorkerLimits& limits = {}) {
    WorkerCommand command = ScriptedCommand("compile", dir_);
    command.limits = limits;
    absl::StatusOr<std::unique_ptr<WorkerProcess>> worker = WorkerProcess::Start(command);
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
  }

  TempDir dir_;
  std::unique_ptr<WorkerProcess> worker_;
};

TEST_F(WorkerProcessTest, AnswersAgainAndAgain) {
  for (const char* expected : {"1", "2", "3"}) {
    const WorkerAnswer answer = Ask("count");
    ASSERT_EQ(answer.kind, Kind::kReplied) << answer.message;
    EXPECT_EQ(answer.reply.compiled().log(), expected);
  }
  EXPECT_TRUE(worker_->alive());
  EXPECT_GT(worker_->ResidentBytes(), 0);
}

TEST_F(WorkerProcessTest, TakesARequestAndAReplyOfManyMegabytes) {
  worker::v1::WorkerRequest request = Compile(absl::StrCat("bulky ", 16 << 20));
  request.mutable_compile()->add_headers()->set_text(std::string(16 << 20, 'h'));
  Start();
  const WorkerAnswer answer = worker_->Call(request, kLong, {});
  ASSERT_EQ(answer.kind, Kind::kReplied) << answer.message;
  EXPECT_EQ(answer.reply.compiled().binary().size(), size_t{16} << 20);
}

TEST_F(WorkerProcessTest, TellsASignalWithTheLastWords) {
  const WorkerAnswer answer = Ask("crash");
  EXPECT_EQ(answer.kind, Kind::kDied);
  EXPECT_THAT(answer.message, HasSubstr("about to crash"));
#if !defined(__SANITIZE_ADDRESS__) && !defined(TUNE_THREAD_SANITIZER)
  EXPECT_THAT(answer.message, HasSubstr("signal 11"));
#endif
  EXPECT_FALSE(worker_->alive());
  EXPECT_EQ(Ask("ok").kind, Kind::kDied) << "a dead worker stays dead";
}

TEST_F(WorkerProcessTest, TellsAnExitCode) {
  const WorkerAnswer answer = Ask("exit");
  EXPECT_EQ(answer.kind, Kind::kDied);
  EXPECT_THAT(answer.message, HasSubstr("exited with code 3"));
  EXPECT_THAT(answer.message, HasSubstr("about to leave"));
}

TEST_F(WorkerProcessTest, KillsAtTheDeadline) {
  Start();
  const pid_t pid = worker_->pid();
  const WorkerAnswer answer = Ask("hang", absl::Milliseconds(200));
  EXPECT_EQ(answer.kind, Kind::kDeadline);
  EXPECT_THAT(answer.message, HasSubstr("200ms"));
  EXPECT_TRUE(Ends(pid));
}

TEST_F(WorkerProcessTest, ASlowWorkerIsNotAHungOne) {
  EXPECT_EQ(Ask("slow 300").kind, Kind::kReplied);
}

TEST_F(WorkerProcessTest, KillsTheChildrenToo) {
  EXPECT_EQ(Ask("spawn", absl::Seconds(1)).kind, Kind::kDeadline);
  pid_t child = 0;
  ASSERT_TRUE(std::ifstream(dir_ / "child") >> child);
  EXPECT_TRUE(Ends(child));
}

TEST_F(WorkerProcessTest, KillsWhatTakesTooMuchMemory) {
  Start({.resident_bytes = 128 << 20});
  EXPECT_EQ(Ask("ok").kind, Kind::kReplied);
  const WorkerAnswer answer = Ask("memory 300");
  EXPECT_EQ(answer.kind, Kind::kExceeded);
  EXPECT_THAT(answer.message, HasSubstr("more than 128 MiB of memory"));
  EXPECT_FALSE(worker_->alive());
}

TEST_F(WorkerProcessTest, CountsTheMemoryOfChildren) {
  Start({.resident_bytes = 16 << 20, .processes = 100});
  EXPECT_EQ(Ask("children 30").kind, Kind::kExceeded);
}

TEST_F(WorkerProcessTest, KillsWhatStartsTooManyProcesses) {
  Start({.processes = 4});
  const WorkerAnswer answer = Ask("children 10");
  EXPECT_EQ(answer.kind, Kind::kExceeded);
  EXPECT_THAT(answer.message, HasSubstr("more than 4 processes"));
}

TEST_F(WorkerProcessTest, KillsWhatStartsTooManyThreads) {
  Start({.processes = 100, .threads = 20});
  const WorkerAnswer answer = Ask("children 30");
  EXPECT_EQ(answer.kind, Kind::kExceeded);
  EXPECT_THAT(answer.message, HasSubstr("more than 20 threads"));
}

TEST_F(WorkerProcessTest, IsEndedWhenTheDiskIsNearlyFull) {
  const int64_t free = static_cast<int64_t>(std::filesystem::space(dir_.path()).available);
  Start({.scratch_dir = dir_.path(), .free_disk_bytes = free + (int64_t{1} << 40)});
  EXPECT_EQ(Ask("slow 200").kind, Kind::kReplied) << "it was like that before";
  const std::string small = dir_ / "files";
  std::filesystem::create_directories(small);
  if (mount("tmpfs", small.c_str(), "tmpfs", 0, "size=64m") != 0) {
    GTEST_SKIP() << "no file system can be mounted here";
  }
  Start({.scratch_dir = small, .free_disk_bytes = 48 << 20});
  EXPECT_EQ(Ask("files 8", absl::Milliseconds(500)).kind, Kind::kDeadline);
  Start({.scratch_dir = small, .free_disk_bytes = 48 << 20});
  const WorkerAnswer answer = Ask("files 60");
  worker_.reset();
  umount2(small.c_str(), MNT_DETACH);
  EXPECT_EQ(answer.kind, Kind::kHostShort) << "whatever its own limit is";
  EXPECT_THAT(answer.message, MatchesRegex("[0-9.]+ MiB are free on the disk of .*, and "
                                           "[0-9.]+ MiB are to stay free.*"));
}

TEST_F(WorkerProcessTest, IsEndedWhenTheDiskHasHardlyRoomForAFile) {
  const std::string small = dir_ / "files";
  std::filesystem::create_directories(small);
  if (mount("tmpfs", small.c_str(), "tmpfs", 0, "size=64m,nr_inodes=40") != 0) {
    GTEST_SKIP() << "no file system can be mounted here";
  }
  const auto ask = [&](const char* behaviour, absl::Duration limit) {
    Start({.scratch_dir = small, .free_disk_bytes = 4 << 20});
    return Ask(behaviour, limit);
  };
  EXPECT_EQ(ask("entries 8", absl::Milliseconds(500)).kind, Kind::kDeadline);
  const WorkerAnswer answer = ask("entries 36", absl::Seconds(30));
  worker_.reset();
  umount2(small.c_str(), MNT_DETACH);
  EXPECT_EQ(answer.kind, Kind::kHostShort);
  EXPECT_THAT(answer.message, MatchesRegex("the disk of .* has room for [0-9] more files?, and "
                                           "[0-9]+ are to stay free.*"));
}

TEST_F(WorkerProcessTest, KillsWhatFillsItsScratchFolder) {
  Start({.scratch_dir = dir_ / "files", .scratch_bytes = 8 << 20});
  EXPECT_EQ(Ask("files 4", absl::Milliseconds(300)).kind, Kind::kDeadline);
  Start({.scratch_dir = dir_ / "files", .scratch_bytes = 8 << 20});
  const WorkerAnswer answer = Ask("files 32");
  EXPECT_EQ(answer.kind, Kind::kExceeded);
  EXPECT_THAT(answer.message, HasSubstr("8 MiB of its scratch folder"));
  Start({.scratch_dir = dir_ / "files", .scratch_bytes = int64_t{1} << 30});
  const WorkerAnswer entries = Ask("entries 11000");
  EXPECT_EQ(entries.kind, Kind::kExceeded);
  EXPECT_THAT(entries.message, HasSubstr("its scratch folder has more than 10000 entries"));
}

TEST_F(WorkerProcessTest, TellsGarbageFromAnAnswer) {
  for (const char* behaviour : {"garbage", "oversized", "empties", "forge"}) {
    worker_.reset();
    const WorkerAnswer answer = Ask(behaviour);
    EXPECT_EQ(answer.kind, Kind::kProtocol) << behaviour << ": " << answer.message;
    EXPECT_FALSE(worker_->alive());
  }
  worker_.reset();
  EXPECT_EQ(Ask("truncated").kind, Kind::kDied);
}

TEST_F(WorkerProcessTest, AnAnswerNobodyAskedForIsNotTaken) {
  EXPECT_EQ(Ask("chatter").kind, Kind::kProtocol);
}

TEST_F(WorkerProcessTest, StopsWaitingWhenCancelled) {
  TrueAfter cancel(absl::Milliseconds(100));
  EXPECT_EQ(Ask("hang", kLong, cancel.AsCancelled()).kind, Kind::kCancelled);
  EXPECT_LT(absl::Now() - cancel.set_at(), absl::Seconds(1));
  EXPECT_FALSE(worker_->alive());
  EXPECT_EQ(Ask("ok").kind, Kind::kDied) << "it answers nobody else";
  EXPECT_TRUE(worker_->Kill()) << "and is gone when it is waited for";
  EXPECT_EQ(kill(worker_->pid(), 0), -1);
}

TEST_F(WorkerProcessTest, EndsWithItsObject) {
  Start();
  const pid_t pid = worker_->pid();
  worker_.reset();
  EXPECT_TRUE(Ends(pid));
}

// A worker ends when its daemon is killed; the daemon is a child process here.
TEST_F(WorkerProcessTest, EndsWhenTheDaemonDies) {
  const std::string pid_file = dir_ / "pid";
  const pid_t daemon = fork();
  ASSERT_GE(daemon, 0);
  if (daemon == 0) {
    absl::StatusOr<std::unique_ptr<WorkerProcess>> worker =
        WorkerProcess::Start(ScriptedCommand("compile", dir_));
    if (!worker.ok()) _exit(1);
    (*worker)->Call(Compile("slow 1"), kLong, {});
    std::ofstream(pid_file) << (*worker)->pid() << std::flush;
    (*worker)->Call(Compile("hang"), kLong, {});
    _exit(1);
  }
  pid_t worker = 0;
  for (int i = 0; i < 1000 && worker == 0; ++i) {
    absl::SleepFor(absl::Milliseconds(10));
    std::ifstream(pid_file) >> worker;
  }
  ASSERT_GT(worker, 0);
  EXPECT_EQ(kill(worker, 0), 0);
  kill(daemon, SIGKILL);
  waitpid(daemon, nullptr, 0);
  EXPECT_TRUE(Ends(worker));
}

TEST_F(WorkerProcessTest, InheritsNoSecretsAndNoFiles) {
  setenv("AWS_SECRET_ACCESS_KEY", "hush", 1);
  setenv("CUDA_VISIBLE_DEVICES", "0", 1);
  const int leaked = open("/dev/null", O_RDONLY);  // without O_CLOEXEC, as a library might
  EXPECT_EQ(Ask("environment AWS_SECRET_ACCESS_KEY").reply.compiled().log(), "unset");
  EXPECT_EQ(Ask("environment CUDA_VISIBLE_DEVICES").reply.compiled().log(), "0");
  EXPECT_EQ(Ask("descriptors").reply.compiled().log(), " 0 1 2 3");
  close(leaked);
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_F(WorkerProcessTest, WhatItIsGivenComesBeforeWhatItInherits) {
  setenv("TUNE_TRITON_PYTHON", "/inherited", 1);
  WorkerCommand command = ScriptedCommand("compile", dir_);
  command.environment.push_back("TUNE_TRITON_PYTHON=/given");
  worker_ = WorkerProcess::Start(command).value();
  unsetenv("TUNE_TRITON_PYTHON");
  EXPECT_EQ(Ask("environment TUNE_TRITON_PYTHON").reply.compiled().log(), "/given");
}

TEST_F(WorkerProcessTest, ACompileWorkerHasNoNetwork) {
  worker_ = WorkerProcess::Start(ScriptedCommand("compile", dir_, {"--walls", "up"})).value();
  EXPECT_EQ(Ask("network").reply.compiled().log(), "Operation not permitted");
}

TEST_F(WorkerProcessTest, ACompileWorkerWritesToItsScratchFolderOnly) {
  TempDir secret;
  std::ofstream(secret / "store") << "x";
  absl::StatusOr<std::unique_ptr<WorkerProcess>> worker = WorkerProcess::Start(
      ScriptedCommand("compile", dir_, {"--walls", "up", "--scratch", dir_ / "scratch"}));
  ASSERT_TRUE(worker.ok()) << worker.status();
  worker_ = *std::move(worker);
  worker::v1::WorkerRequest hello;
  hello.mutable_hello();
  const WorkerAnswer greeted = worker_->Call(hello, kLong, {});
  ASSERT_EQ(greeted.kind, Kind::kReplied) << greeted.message;
  EXPECT_EQ(Ask("write " + (dir_ / "scratch/a")).reply.compiled().log(), "done");
  EXPECT_EQ(Ask("environment TMPDIR").reply.compiled().log(), dir_ / "scratch");
  EXPECT_EQ(Ask("read /usr/include/stdio.h").reply.compiled().log(), "done");
  if (!greeted.reply.hello().walls_missing().empty()) {
    GTEST_SKIP() << greeted.reply.hello().walls_missing();
  }
  EXPECT_EQ(Ask("write " + (secret / "b")).reply.compiled().log(), "Permission denied");
  EXPECT_EQ(Ask("read " + (secret / "store")).reply.compiled().log(), "Permission denied");
  EXPECT_EQ(Ask("read /etc/passwd").reply.compiled().log(), "Permission denied");
}

TEST(FindWorkerTest, SaysWhereItLooked) {
  const absl::Status status = FindWorker("tune-compile-none", "/nowhere").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/tune-compile-none"));
}

TEST(WorkerStartTest, AProgramThatIsNotThereIsASentence) {
  EXPECT_EQ(WorkerProcess::Start({"/nowhere/worker", {}, {}}).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tune::server
