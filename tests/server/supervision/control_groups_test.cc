// SPDX-License-Identifier: Apache-2.0
// By folders that look like the kernel's, which takes no limits here; and by the kernel itself on a
// host that delegates the test's own group, such as `systemd-run --scope -p Delegate=yes` does.
#include "server/supervision/control_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/supervision/wall_book.h"
#include "server/supervision/worker_process.h"
#include "tests/server/supervision/scripted.h"

namespace tune::server {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = WorkerAnswer::Kind;

constexpr int64_t kMiB = int64_t{1} << 20;

class FakeGroupsTest : public testing::Test {
 protected:
  FakeGroupsTest() {
    Write("proc/self/cgroup", "1:name=systemd:/elsewhere\n0::/\n");
    Write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory pids\n");
    Write("sys/fs/cgroup/cgroup.procs", absl::StrCat(getpid(), "\n"));
  }
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::string Read(const std::string& path) {
    std::ifstream file(root_ / ("sys/fs/cgroup/" + path));
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  std::string WhyNot() {
    const auto groups = ControlGroups::Claim(root_.path());
    return groups.ok() ? "" : std::string(groups.status().message());
  }

  TempDir root_;
};

TEST_F(FakeGroupsTest, MovesTheDaemonToALeafAndEnablesControllers) {
  auto groups = ControlGroups::Claim(root_.path());
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_EQ(Read("tune-daemon/cgroup.procs"), absl::StrCat(getpid()));
  EXPECT_EQ(Read("cgroup.subtree_control"), "+memory +pids");
  groups->reset();
  EXPECT_EQ(Read("cgroup.subtree_control"), "-memory -pids");
}

TEST_F(FakeGroupsTest, AWorkersGroupHasItsLimits) {
  auto groups = ControlGroups::Claim(root_.path()).value();
  auto group = groups->Make(128 * kMiB, 21).value();
  EXPECT_EQ(Read("tune-worker-1/memory.max"), absl::StrCat(128 * kMiB));
  EXPECT_EQ(Read("tune-worker-1/memory.swap.max"), "0");
  EXPECT_EQ(Read("tune-worker-1/memory.oom.group"), "1");
  EXPECT_EQ(Read("tune-worker-1/pids.max"), "21");
  Write("sys/fs/cgroup/tune-worker-1/memory.current", "4096\n");
  EXPECT_EQ(group->MemoryBytes(), 4096);
  EXPECT_FALSE(group->HasRunOutOfMemory());
  Write("sys/fs/cgroup/tune-worker-1/memory.events", "low 0\nmax 9\noom 1\noom_kill 3\n");
  EXPECT_TRUE(group->HasRunOutOfMemory());
  Write("sys/fs/cgroup/tune-worker-1/cgroup.kill", "");
  group->Kill();
  EXPECT_EQ(Read("tune-worker-1/cgroup.kill"), "1");
}

TEST_F(FakeGroupsTest, AWorkerWithoutLimitsHasNoneInItsGroup) {
  auto groups = ControlGroups::Claim(root_.path()).value();
  auto group = groups->Make(0, 0).value();
  EXPECT_FALSE(fs::exists(root_ / "sys/fs/cgroup/tune-worker-1/memory.max"));
  EXPECT_FALSE(fs::exists(root_ / "sys/fs/cgroup/tune-worker-1/pids.max"));
}

TEST_F(FakeGroupsTest, AWorkerJoinsItsGroupBeforeItsFirstRequest) {
  auto groups = ControlGroups::Claim(root_.path()).value();
  WorkerCommand command = ScriptedCommand("compile", root_);
  command.groups = groups.get();
  auto worker = WorkerProcess::Start(command).value();
  worker::v1::WorkerRequest request;
  request.mutable_compile()->set_language(v1::CUDA);
  request.mutable_compile()->set_source_text("descriptors");
  const WorkerAnswer answer = worker->Call(request, absl::Seconds(60), {});
  EXPECT_EQ(answer.reply.compiled().log(), " 0 1 2 3") << "it closes the entry";
  EXPECT_EQ(Read("tune-worker-1/cgroup.procs"), "0") << "by which the kernel takes the writer";
}

TEST_F(FakeGroupsTest, RemovesGroupsThatAKilledDaemonLeft) {
  fs::create_directories(root_ / "sys/fs/cgroup/tune-worker-7");
  fs::create_directories(root_ / "sys/fs/cgroup/somebody-elses");
  auto groups = ControlGroups::Claim(root_.path()).value();
  EXPECT_FALSE(fs::exists(root_ / "sys/fs/cgroup/tune-worker-7"));
  EXPECT_TRUE(fs::exists(root_ / "sys/fs/cgroup/somebody-elses"));
}

TEST_F(FakeGroupsTest, AGroupWithOtherProcessesIsLeftAlone) {
  Write("sys/fs/cgroup/cgroup.procs", absl::StrCat("1\n", getpid(), "\n"));
  EXPECT_THAT(WhyNot(), HasSubstr("holds other processes, such as 1"));
  EXPECT_FALSE(fs::exists(root_ / "sys/fs/cgroup/tune-daemon"));
  EXPECT_FALSE(fs::exists(root_ / "sys/fs/cgroup/cgroup.subtree_control"));
}

TEST_F(FakeGroupsTest, AnotherDaemonsGroupIsLeftAlone) {
  Write("sys/fs/cgroup/tune-daemon/cgroup.procs", "1\n");
  fs::create_directories(root_ / "sys/fs/cgroup/tune-worker-7");
  EXPECT_THAT(WhyNot(), HasSubstr("holds other processes"));
  EXPECT_TRUE(fs::exists(root_ / "sys/fs/cgroup/tune-worker-7"));
}

TEST_F(FakeGroupsTest, AGroupBelowTheRootMustBeDelegated) {
  Write("proc/self/cgroup", "0::/a.service\n");
  Write("sys/fs/cgroup/a.service/cgroup.controllers", "memory pids\n");
  EXPECT_THAT(WhyNot(), HasSubstr("is not delegated"));
  EXPECT_FALSE(fs::exists(root_ / "sys/fs/cgroup/a.service/tune-daemon"));
}

TEST_F(FakeGroupsTest, AHostWithoutTheControllersOrVersion2IsWatched) {
  Write("sys/fs/cgroup/cgroup.controllers", "hugetlb pids\n");
  EXPECT_THAT(WhyNot(), HasSubstr("no limits of memory and pids"));
  Write("proc/self/cgroup", "4:memory:/a\n");
  EXPECT_THAT(WhyNot(), HasSubstr("no control groups of version 2"));
}

// The kernel itself, if it lets this process have groups.
class KernelGroupsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto groups = ControlGroups::Claim();
    if (!groups.ok()) GTEST_SKIP() << groups.status().message();
    groups_ = *std::move(groups);
  }
  void Start(const WorkerLimits& limits) {
    WorkerCommand command = ScriptedCommand("compile", dir_);
    command.limits = limits;
    command.groups = groups_.get();
    worker_ = WorkerProcess::Start(command).value();
  }
  WorkerAnswer Ask(const std::string& behaviour) {
    worker::v1::WorkerRequest request;
    request.mutable_compile()->set_language(v1::CUDA);
    request.mutable_compile()->set_source_text(behaviour);
    return worker_->Call(request, absl::Seconds(10), {});
  }

  TempDir dir_;
  std::unique_ptr<ControlGroups> groups_;
  std::unique_ptr<WorkerProcess> worker_;
};

TEST_F(KernelGroupsTest, EndsWhatTakesTooMuchMemoryOfAnyKind) {
  Start({.resident_bytes = 128 * kMiB});
  EXPECT_EQ(Ask("ok").kind, Kind::kReplied);
  for (const char* behaviour : {"memory 300", "hidden 300"}) {
    Start({.resident_bytes = 128 * kMiB});
    const WorkerAnswer answer = Ask(behaviour);
    EXPECT_EQ(answer.kind, Kind::kExceeded) << behaviour << ": " << answer.message;
    EXPECT_EQ(answer.message, "it used more than 128 MiB of memory");
  }
}

TEST_F(KernelGroupsTest, KillsWhatHasLeftTheProcessGroup) {
  Start({});
  EXPECT_EQ(Ask("stray").kind, Kind::kDeadline);
  pid_t child = 0;
  ASSERT_TRUE(std::ifstream(dir_ / "child") >> child);
  EXPECT_TRUE(Ends(child));
}

TEST_F(KernelGroupsTest, KillsWhatStartsTooManyThreads) {
  Start({.processes = 100, .threads = 20});
  const WorkerAnswer answer = Ask("children 30");
  EXPECT_EQ(answer.kind, Kind::kExceeded);
  EXPECT_THAT(answer.message, HasSubstr("more than 20 threads"));
}

TEST_F(KernelGroupsTest, TheWallOfMemoryStands) {
  Start({});
  WallBook book(dir_ / "walls", false);
  ASSERT_TRUE(book.Try("worker", *worker_, {}).ok());
  EXPECT_EQ(book.Of("worker")->walls().rbegin()->name(), "memory");
  EXPECT_EQ(book.Of("worker")->walls().rbegin()->state(), v1::WALL_STATE_STANDS);
}

}  // namespace
}  // namespace tune::server
