// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/compile_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/supervision/host_short.h"
#include "tests/server/supervision/scripted.h"

namespace tune::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;

CompilePlan Plan(const std::string& behaviour) {
  return {.target = "sm_90a", .source_name = "a.cu", .source_text = behaviour, .entries = {"k"}};
}

class CompilePoolTest : public testing::Test {
 protected:
  CompilePoolTest() : cache_(CompileCache::Open(dir_ / "cache").value()) {
    options_.command = ScriptedCommand("compile", dir_);
    options_.workers = 2;
    options_.cache = cache_.get();
  }
  CompilePool& pool() {
    if (pool_ == nullptr) pool_ = std::make_unique<CompilePool>(options_);
    return *pool_;
  }
  CompileResult Compile(const std::string& behaviour) {
    absl::StatusOr<CompileResult> result = pool().Compile(Plan(behaviour), {});
    EXPECT_TRUE(result.ok()) << behaviour << ": " << result.status();
    return result.value_or(CompileResult{});
  }

  TempDir dir_;
  std::unique_ptr<CompileCache> cache_;
  CompilePoolOptions options_;
  std::unique_ptr<CompilePool> pool_;
};

TEST_F(CompilePoolTest, SaysWhichCompilerItHas) {
  absl::StatusOr<CompilerInfo> info = pool().Info(Language::kCuda);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->version, "scripted 1");
  EXPECT_EQ(info->targets.size(), 2u);
}

TEST_F(CompilePoolTest, NoCompilerIsASentence) {
  options_.command.args.insert(options_.command.args.end(), {"--broken", "install a compiler"});
  const absl::Status status = pool().Info(Language::kCuda).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("install a compiler"));
  EXPECT_EQ(pool().Compile(Plan("ok"), {}).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(CompilePoolTest, CompilesOnceAndThenFindsIt) {
  EXPECT_FALSE(Compile("count").cached);
  const CompileResult again = Compile("count");
  EXPECT_TRUE(again.cached);
  EXPECT_EQ(again.artifact.log, "1");
  EXPECT_EQ(again.artifact.seconds, 0.25);
}

CompilePlan PlanOf(const std::string& origin, const std::string& name) {
  CompilePlan plan = Plan("count");
  plan.origin = origin;
  plan.defines = {{"NAME", name}};
  return plan;
}

TEST_F(CompilePoolTest, AWorkerCompilesForOneOriginAlone) {
  options_.workers = 1;
  const auto requests = [&](const std::string& origin, const std::string& name) {
    return pool().Compile(PlanOf(origin, name), {})->artifact.log;
  };
  EXPECT_EQ(requests("alice", "a"), "1");
  EXPECT_EQ(requests("alice", "b"), "2");
  EXPECT_EQ(requests("mallory", "c"), "1") << "a process that has seen nothing of alice's";
  EXPECT_EQ(requests("", "d"), "1");
  EXPECT_EQ(requests("alice", "e"), "1");
  EXPECT_EQ(pool().worker_restarts(), 0u) << "nothing had gone wrong";
}

TEST_F(CompilePoolTest, WhatOneOriginWasToldIsNotTakenForAnothers) {
  ASSERT_FALSE(pool().Compile(PlanOf("mallory", "a"), {})->cached);
  EXPECT_TRUE(pool().Compile(PlanOf("mallory", "a"), {})->cached);
  EXPECT_FALSE(pool().Compile(PlanOf("", "a"), {})->cached);
}

// Else two who take turns would have a new worker for each compile.
TEST_F(CompilePoolTest, JobsOfAnOriginThatWaitGoTogether) {
  options_.workers = 1;
  options_.origin_turn = absl::InfiniteDuration();
  ASSERT_TRUE(pool().Compile(PlanOf("alice", "first"), {}).ok());
  ASSERT_TRUE(pool().Pause({}).ok());
  std::mutex mutex;
  std::vector<std::string> logs;
  for (int i = 0; i < 3; ++i) {
    for (const char* origin : {"mallory", "alice"}) {
      pool().Submit(this, PlanOf(origin, std::to_string(i)),
                    [&](absl::StatusOr<CompileResult> result) {
                      std::lock_guard<std::mutex> lock(mutex);
                      logs.push_back(result->artifact.log);
                    });
    }
  }
  pool().Resume();
  EXPECT_TRUE(Eventually([&] {
    std::lock_guard<std::mutex> lock(mutex);
    return logs.size() == 6;
  }));
  pool().Withdraw(this);
  EXPECT_THAT(logs, testing::ElementsAre("2", "3", "4", "1", "2", "3"));
}

TEST_F(CompilePoolTest, FailuresOfTheCompilerAreKeptToo) {
  EXPECT_EQ(Compile("outcome 3").artifact.outcome, Outcome::kCompileFailed);
  EXPECT_TRUE(Compile("outcome 3").cached);
  EXPECT_FALSE(Compile("outcome 3").may_pass) << "the compiler's own word";
  EXPECT_EQ(Compile("outcome 2").artifact.outcome, Outcome::kInvalidConfig);
}

TEST_F(CompilePoolTest, ACrashIsTriedAgainAndThenForgotten) {
  const CompileResult result = Compile("once crash");
  EXPECT_EQ(result.artifact.outcome, Outcome::kOk);
  EXPECT_EQ(pool().worker_restarts(), 1u);
}

TEST_F(CompilePoolTest, ASecondCrashIsTheVariantsFault) {
  for (const char* behaviour : {"crash", "exit", "garbage", "oversized", "unusable", "outcome 7"}) {
    const CompileResult result = Compile(behaviour);
    EXPECT_EQ(result.artifact.outcome, Outcome::kCompileFailed) << behaviour;
    EXPECT_THAT(result.artifact.log, HasSubstr("failed twice")) << behaviour;
    EXPECT_FALSE(Compile(behaviour).cached) << behaviour << ": not the compiler's own word";
    EXPECT_TRUE(result.may_pass) << behaviour;
  }
  EXPECT_EQ(Compile("ok").artifact.outcome, Outcome::kOk);
}

TEST_F(CompilePoolTest, ABinaryOverTheBoundIsTheVariantsFault) {
  options_.binary_bytes_max = 1 << 20;
  for (int i = 0; i < 2; ++i) {
    const CompileResult result = Compile("bulky 1048577");
    EXPECT_EQ(result.artifact.outcome, Outcome::kCompileFailed);
    EXPECT_THAT(result.artifact.log, HasSubstr("has 1048577 bytes, more than the 1048576"));
    EXPECT_THAT(result.artifact.log, HasSubstr("--binary-bytes"));
    EXPECT_EQ(result.artifact.binary, "");
    EXPECT_FALSE(result.cached) << "a daemon with a larger bound would take it";
    EXPECT_TRUE(result.may_pass);
  }
  EXPECT_EQ(Compile("bulky 1048576").artifact.outcome, Outcome::kOk) << "what the bound allows";
  EXPECT_EQ(pool().worker_restarts(), 0u) << "the worker refused, it did not break";
}

TEST_F(CompilePoolTest, ALongLogIsCutAndSaysSo) {
  options_.log_bytes_max = 1000;
  const CompileResult result = Compile("huge");
  EXPECT_EQ(result.artifact.log.substr(0, 1001), std::string(1000, 'x') + "\n");
  EXPECT_THAT(result.artifact.log.substr(1000), HasSubstr("cut: of 33554432 bytes"));
  EXPECT_LT(result.artifact.log.size(), 1200u);
}

TEST_F(CompilePoolTest, ATimeoutIsBlamedAtOnceAndNotKept) {
  options_.deadline = absl::Milliseconds(300);
  for (int i = 0; i < 2; ++i) {
    const CompileResult result = Compile("hang");
    EXPECT_EQ(result.artifact.outcome, Outcome::kCompileTimeout);
    EXPECT_FALSE(result.cached);
    EXPECT_THAT(result.artifact.log, HasSubstr("300ms"));
  }
  EXPECT_EQ(pool().worker_restarts(), 2u);
}

TEST_F(CompilePoolTest, OneBadVariantCostsTheOthersNothing) {
  options_.deadline = absl::Seconds(2);
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, Outcome> outcomes;
  for (const char* behaviour :
       {"samples 1", "crash", "samples 2", "hang", "samples 3", "garbage", "samples 4"}) {
    pool().Submit(this, Plan(behaviour), [&, behaviour](absl::StatusOr<CompileResult> result) {
      std::lock_guard<std::mutex> lock(mutex);
      outcomes[behaviour] = result.ok() ? result->artifact.outcome : Outcome::kFaulted;
      changed.notify_all();
    });
  }
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return outcomes.size() == 7; });
  lock.unlock();
  pool().Withdraw(this);
  for (int i = 1; i <= 4; ++i) EXPECT_EQ(outcomes["samples " + std::to_string(i)], Outcome::kOk);
  EXPECT_EQ(outcomes["crash"], Outcome::kCompileFailed);
  EXPECT_EQ(outcomes["garbage"], Outcome::kCompileFailed);
  EXPECT_EQ(outcomes["hang"], Outcome::kCompileTimeout);
}

TEST_F(CompilePoolTest, CancelsInTheMiddleOfACompile) {
  TrueAfter cancel(absl::Milliseconds(200));
  EXPECT_EQ(pool().Compile(Plan("hang"), cancel.AsCancelled()).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_LT(absl::Now() - cancel.set_at(), absl::Seconds(1));
  EXPECT_EQ(Compile("ok").artifact.outcome, Outcome::kOk);
}

TEST_F(CompilePoolTest, NoCallbackAfterWithdraw) {
  std::atomic<int> called{0};
  for (int i = 0; i < 20; ++i) {
    pool().Submit(this, Plan("hang"), [&](absl::StatusOr<CompileResult>) { ++called; });
  }
  pool().Withdraw(this);
  EXPECT_EQ(called, 0);
  EXPECT_EQ(Compile("ok").artifact.outcome, Outcome::kOk) << "both workers are free again";
}

TEST_F(CompilePoolTest, StandsStillWhilePaused) {
  ASSERT_TRUE(pool().Pause({}).ok());
  std::promise<void> done;
  std::future<void> compiled = done.get_future();
  pool().Submit(this, Plan("ok"), [&](absl::StatusOr<CompileResult>) { done.set_value(); });
  EXPECT_EQ(compiled.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  pool().Resume();
  EXPECT_EQ(Compile("samples 1").artifact.outcome, Outcome::kOk);
  compiled.wait();
  pool().Withdraw(this);
}

TEST_F(CompilePoolTest, PausingWaitsForWhatRunsUnlessCancelled) {
  pool().Submit(this, Plan("files 0"), [](absl::StatusOr<CompileResult>) {});  // then it hangs
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(dir_ / "files"); }));
  TrueAfter cancel(absl::Milliseconds(50));
  EXPECT_EQ(pool().Pause(cancel.AsCancelled()).code(), absl::StatusCode::kCancelled);
  pool().Withdraw(this);
  EXPECT_EQ(Compile("ok").artifact.outcome, Outcome::kOk) << "not paused";
}

TEST_F(CompilePoolTest, ACompileForACallIsStoppedDuringAPauseAndThenGoesOn) {
  options_.workers = 1;
  options_.deadline = absl::Milliseconds(2000);
  std::promise<absl::StatusOr<CompileResult>> promise;
  std::future<absl::StatusOr<CompileResult>> result = promise.get_future();
  {
    const ActingFor call({.name = "mallory", .has_reserve = false, .is_call = true});
    pool().Submit(this, Plan("slow 1500"), [&](absl::StatusOr<CompileResult> compiled) {
      promise.set_value(std::move(compiled));
    });
  }
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(dir_ / "log"); }));
  const absl::Time asked = absl::Now();
  ASSERT_TRUE(pool().Pause({}).ok());
  EXPECT_LT(absl::Now() - asked, absl::Milliseconds(1200)) << "what measures does not wait for it";
  EXPECT_EQ(result.wait_for(std::chrono::milliseconds(2500)), std::future_status::timeout);
  pool().Resume();
  const absl::StatusOr<CompileResult> compiled = result.get();
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(compiled->artifact.outcome, Outcome::kOk) << "it rested beyond its deadline";
  EXPECT_EQ(pool().worker_restarts(), 0u);
}

TEST_F(CompilePoolTest, AMissingCompilerIsNotStartedForEachCompile) {
  options_.command.args.insert(options_.command.args.end(), {"--broken", "install a compiler"});
  const auto starts = [&] {
    EXPECT_EQ(pool().Compile(Plan("ok"), {}).status().code(), absl::StatusCode::kUnavailable);
    std::string name = std::filesystem::path(options_.scratch_dir).filename();
    size_t folders = 0;
    for (const auto& folder : std::filesystem::directory_iterator(options_.scratch_dir)) {
      name = std::max(name, folder.path().filename().string());
      ++folders;
    }
    return std::pair(folders, name);
  };
  options_.scratch_dir = dir_ / "scratch";
  const auto first = starts();
  EXPECT_EQ(starts(), first);
  EXPECT_EQ(starts(), first);
}

TEST_F(CompilePoolTest, ADiskThatIsNearlyFullIsNoVariantsFault) {
  const std::string small = dir_ / "files";
  std::filesystem::create_directories(small);
  if (mount("tmpfs", small.c_str(), "tmpfs", 0, "size=64m") != 0) {
    GTEST_SKIP() << "no file system can be mounted here";
  }
  options_.scratch_dir = small + "/scratch";
  options_.command.limits.free_disk_bytes = 48 << 20;
  // Takes three quarters of what is left, each time a compile has begun.
  std::thread filler([&] {
    for (size_t begun = 1; begun <= 2; ++begun) {
      EXPECT_TRUE(Eventually([&] {
        std::ifstream log(dir_ / "log");
        size_t compiles = 0;
        for (std::string line; std::getline(log, line);)
          compiles += absl::StartsWith(line, "begin ");
        return compiles >= begun;
      }));
      const size_t left = std::filesystem::space(small).available;
      std::ofstream(absl::StrCat(small, "/", begun)) << std::string(left / 4 * 3, 'x');
    }
  });
  const absl::Status full = pool().Compile(Plan("hang"), {}).status();
  filler.join();
  pool_.reset();
  // With nothing left no worker has a folder.
  std::ofstream(small + "/rest") << std::string(64 << 20, 'x');
  const absl::Status nothing_left = pool().Compile(Plan("ok"), {}).status();
  const absl::Status unknown = pool().Info(Language::kCuda).status();
  pool_.reset();
  umount2(small.c_str(), MNT_DETACH);
  EXPECT_TRUE(IsHostShort(full)) << full;
  EXPECT_THAT(std::string(full.message()),
              AllOf(HasSubstr("MiB are free on the disk of"), HasSubstr("are to stay free")));
  EXPECT_TRUE(nothing_left.ok() || IsHostShort(nothing_left)) << nothing_left;
  EXPECT_TRUE(unknown.ok() || IsHostShort(unknown)) << unknown;
}

TEST_F(CompilePoolTest, ReplacesAWorkerAfterSoManyCompiles) {
  options_.workers = 1;
  options_.compiles_per_worker = 2;
  options_.cache = nullptr;
  for (const char* expected : {"1", "2", "1", "2"}) {
    EXPECT_EQ(Compile("count").artifact.log, expected);
  }
  EXPECT_EQ(pool().worker_restarts(), 0u) << "age is no failure";
}

TEST_F(CompilePoolTest, ReplacesAWorkerThatHasGrownTooLarge) {
  options_.workers = 1;
  options_.resident_bytes_max = 1;
  options_.cache = nullptr;
  for (const char* expected : {"1", "1"}) EXPECT_EQ(Compile("count").artifact.log, expected);
}

TEST_F(CompilePoolTest, StopsIdleWorkers) {
  options_.workers = 1;
  options_.idle_stop = absl::Milliseconds(100);
  options_.cache = nullptr;
  EXPECT_EQ(Compile("count").artifact.log, "1");
  EXPECT_TRUE(Eventually([] {
    siginfo_t child;
    return waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
  }));
  EXPECT_EQ(Compile("count").artifact.log, "1");
}

TEST_F(CompilePoolTest, EndsInTheMiddleOfAnything) {
  for (int i = 0; i < 5; ++i) {
    pool().Submit(this, Plan("hang"), [](absl::StatusOr<CompileResult>) {});
  }
  const absl::Time start = absl::Now();
  pool_.reset();
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
}

// Compiles of a call that is no operator's.
class CallersCompiles {
 public:
  CallersCompiles(CompilePool& pool, const std::string& name) : pool_(pool), name_(name) {}
  ~CallersCompiles() { pool_.Withdraw(this); }
  void Submit(const std::string& behaviour) {
    const ActingFor acting({.name = name_, .has_reserve = false});
    pool_.Submit(this, Plan(behaviour), [this](absl::StatusOr<CompileResult>) { ++done_; });
  }
  int done() const { return done_; }

 private:
  CompilePool& pool_;
  const std::string name_;
  std::atomic<int> done_ = 0;
};

TEST_F(CompilePoolTest, ACallThatCompilesForeverKeepsNoJobFromCompiling) {
  for (const int workers : {1, 2, 4}) {
    options_.workers = workers;
    pool_ = nullptr;
    CallersCompiles check(pool(), "mallory");
    CallersCompiles check_of_another(pool(), "malvolio");
    for (int i = 0; i < 20; ++i) check.Submit("hang");
    for (int i = 0; i < 20; ++i) check_of_another.Submit("hang");
    absl::SleepFor(absl::Milliseconds(300));
    const ActingFor job({.name = "alice"});
    const absl::Time begin = absl::Now();
    const absl::StatusOr<CompileResult> result =
        pool().Compile(Plan(absl::StrCat("samples ", workers)),
                       [&] { return absl::Now() > begin + absl::Seconds(20); });
    EXPECT_TRUE(result.ok()) << workers << " workers: " << result.status();
  }
}

TEST_F(CompilePoolTest, WorkersAreSharedByTurns) {
  options_.workers = 1;
  CallersCompiles many(pool(), "mallory");
  CallersCompiles few(pool(), "alice");
  for (int i = 0; i < 60; ++i) many.Submit(absl::StrCat("slow ", 50 + i % 2, " ", i));
  for (int i = 0; i < 3; ++i) few.Submit(absl::StrCat("slow 50 ", 100 + i));
  ASSERT_TRUE(Eventually([&] { return few.done() == 3; }));
  EXPECT_LT(many.done(), 15) << "each waits for about as many of the other's as it has itself";
}

TEST_F(CompilePoolTest, JobsOfOnePrincipalTakeTurnsToo) {
  options_.workers = 1;
  CallersCompiles many(pool(), "alice");
  CallersCompiles few(pool(), "alice");
  for (int i = 0; i < 60; ++i) many.Submit(absl::StrCat("slow ", 50 + i % 2, " ", i));
  for (int i = 0; i < 3; ++i) few.Submit(absl::StrCat("slow 50 ", 100 + i));
  ASSERT_TRUE(Eventually([&] { return few.done() == 3; }));
  EXPECT_LT(many.done(), 15) << "a sweep's queue delays no job on another device";
}

TEST_F(CompilePoolTest, DoneActsForWhoeverSubmitted) {
  Sharer seen;
  std::promise<void> done;
  {
    const ActingFor acting({.name = "alice", .has_reserve = false});
    pool().Submit(this, Plan("samples 1"), [&](absl::StatusOr<CompileResult>) {
      seen = ActingFor::Current();
      done.set_value();
    });
  }
  done.get_future().wait();
  EXPECT_EQ(seen, (Sharer{.name = "alice", .has_reserve = false}));
  pool().Withdraw(this);
}

TEST_F(CompilePoolTest, ThatThereIsNoCompilerIsRemembered) {
  const std::string starts = dir_ / "starts";
  const std::string program = dir_ / "counted.sh";
  std::ofstream(program) << "#!/bin/sh\necho start >> " << starts << "\nexec "
                         << options_.command.program << " \"$@\"\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  options_.command.program = program;
  options_.command.args.insert(options_.command.args.end(), {"--broken", "install a compiler"});
  const auto started = [&] { return std::filesystem::file_size(starts) / sizeof("start"); };
  const absl::Status first = pool().Info(Language::kCuda).status();
  ASSERT_TRUE(absl::IsUnavailable(first)) << first;
  const size_t starts_of_first = started();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pool().Info(Language::kCuda).status(), first);
  EXPECT_EQ(started(), starts_of_first);
  pool().ForgetMissing();
  EXPECT_FALSE(pool().Info(Language::kCuda).ok());
  EXPECT_GT(started(), starts_of_first) << "an operator had it tried again";
}

}  // namespace
}  // namespace tune::server
