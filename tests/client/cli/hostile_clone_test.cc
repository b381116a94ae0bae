// SPDX-License-Identifier: Apache-2.0
// A clone in which everything that git may run, given the chance, leaves a mark: reading its
// kernels leaves none. Each trap is sprung once by hand first, where git can be made to, so that
// the test knows it to be armed.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/kernel_set.h"
#include "gmock/gmock.h"

namespace tune::client {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class HostileCloneTest : public testing::Test {
 protected:
  void SetUp() override {
    before_ = fs::current_path();
    top_ = fs::path(testing::TempDir()) /
           absl::StrCat("hostile-clone-", getpid(), "-",
                        testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(top_);
    fs::create_directories(top_ / "marks");
    fs::create_directories(top_ / "clone");
    fs::current_path(top_ / "clone");
    Git("init -q -b main");
    Write("kernels/a/a.textproto", "name: \"a\" source: \"a.cu\"");
    Write("kernels/a/a.cu", "committed\n");
  }
  void TearDown() override {
    for (const char* variable :
         {"GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0",
          "GIT_CONFIG_VALUE_0", "GIT_DIR", "GIT_PAGER", "GIT_EXEC_PATH"}) {
      unsetenv(variable);
    }
    fs::current_path(before_);
    fs::remove_all(top_);
  }
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::absolute(path).parent_path());
    std::ofstream(path) << text;
  }
  int TryGit(const std::string& arguments) {
    return std::system(absl::StrCat("GIT_CONFIG_GLOBAL=/dev/null git -c user.name=a -c "
                                    "user.email=a@b -c commit.gpgsign=false ",
                                    arguments, " > ", (top_ / "git.log").string(), " 2>&1")
                           .c_str());
  }
  void Git(const std::string& arguments) {
    ASSERT_EQ(TryGit(arguments), 0) << arguments << ": " << std::ifstream(top_ / "git.log").rdbuf();
  }
  void Commit() {
    Git("add -A");
    Git("commit -q -m commit");
  }
  // A program that leaves a mark and does nothing else.
  std::string Trap(const std::string& name) {
    const fs::path program = top_ / "traps" / name;
    Write(program.string(), absl::StrCat("#!/bin/sh\ntouch ", Mark(name), "\nexit 1\n"));
    chmod(program.c_str(), 0755);
    return program.string();
  }
  std::string Mark(const std::string& name) { return (top_ / "marks" / name).string(); }
  std::string Marks() {
    std::string marks;
    for (const auto& entry : fs::directory_iterator(top_ / "marks")) {
      absl::StrAppend(&marks, entry.path().filename().string(), " ");
    }
    return marks;
  }
  void Config(const std::string& key, const std::string& value) {
    Git(absl::StrCat("config '", key, "' '", value, "'"));
  }
  // The trap goes off when git is used as a person would; from now on it has not.
  void ExpectArmed(const std::string& name, const std::string& arguments) {
    TryGit(arguments);
    EXPECT_TRUE(fs::exists(Mark(name))) << name << " is no trap: git " << arguments << " passed it";
    fs::remove(Mark(name));
  }
  void ReadEverySide() {
    for (const char* where : {"HEAD", "main", "HEAD^{commit}", ".", "kernels/a/a.textproto"}) {
      const auto set = ReadKernelSet(where, "kernels");
      ASSERT_TRUE(set.ok()) << where << ": " << set.status();
      EXPECT_EQ(set->kernels.at("a").files().at("a.cu"), "committed\n") << where;
    }
    EXPECT_FALSE(ReadKernelSet("origin/nothing", "kernels").ok());
    EXPECT_EQ(Marks(), "");
  }

  fs::path before_;
  fs::path top_;
};

TEST_F(HostileCloneTest, NoCommandOfItsConfigurationRuns) {
  Write(".gitattributes", "* filter=trap diff=trap merge=trap text eol=lf\n");
  Commit();
  Config("diff.trap.textconv", Trap("textconv"));
  ExpectArmed("textconv", "log -p -1");
  Config("filter.trap.clean", Trap("clean"));
  Config("filter.trap.smudge", Trap("smudge"));
  Config("filter.trap.process", Trap("process"));
  Config("filter.trap.required", "true");
  Config("diff.trap.command", Trap("diff-command"));
  Config("diff.external", Trap("diff-external"));
  Config("merge.trap.driver", Trap("merge"));
  Config("core.fsmonitor", Trap("fsmonitor"));
  Config("core.sshCommand", Trap("ssh"));
  Config("core.gitProxy", Trap("proxy"));
  Config("core.pager", Trap("pager"));
  Config("core.editor", Trap("editor"));
  Config("core.askPass", Trap("askpass"));
  Config("credential.helper", absl::StrCat("!", Trap("credential")));
  Config("gpg.program", Trap("gpg"));
  Config("log.showSignature", "true");
  Config("uploadpack.packObjectsHook", Trap("pack-objects"));
  for (const char* command : {"rev-parse", "ls-tree", "cat-file", "rev-list", "show"}) {
    Config(absl::StrCat("alias.", command), absl::StrCat("!", Trap("alias")));
    Config(absl::StrCat("pager.", command), Trap("pager-of-command"));
  }
  fs::create_directories("hooks");
  for (const char* hook : {"post-checkout", "pre-commit", "post-index-change", "pre-auto-gc",
                           "reference-transaction", "fsmonitor-watchman"}) {
    fs::copy_file(Trap(absl::StrCat("hook-", hook)), fs::path("hooks") / hook);
  }
  Config("core.hooksPath", fs::absolute("hooks").string());
  ExpectArmed("fsmonitor", "status");
  ExpectArmed("process", "hash-object kernels/a/a.cu");
  ExpectArmed("hook-reference-transaction", "update-ref refs/heads/x HEAD");
  fs::remove_all(top_ / "marks");
  fs::create_directories(top_ / "marks");
  ReadEverySide();
}

TEST_F(HostileCloneTest, NothingIsFetched) {
  Commit();
  // Every blob is gone, and the promisor that would bring it back leaves a mark.
  Config("core.repositoryFormatVersion", "1");
  Config("extensions.partialClone", "origin");
  Config("remote.origin.promisor", "true");
  Config("remote.origin.url", absl::StrCat("ext::", Trap("ext")));
  Config("protocol.ext.allow", "always");
  Config("protocol.allow", "always");
  const std::string found = ".git/objects";
  Git("rev-parse HEAD:kernels/a/a.cu");
  std::string blob;
  std::ifstream(top_ / "git.log") >> blob;
  fs::remove(fs::path(found) / blob.substr(0, 2) / blob.substr(2));
  ExpectArmed("ext", "cat-file blob HEAD:kernels/a/a.cu");
  for (const auto& [key, value] :
       {std::pair<std::string, std::string>{"remote.origin.url",
                                            absl::StrCat("ext::", Trap("ext"))},
        {"remote.origin.url", absl::StrCat("file://", top_.string(), "/none")},
        {"remote.origin.url", "ssh://git@localhost:1/none"},
        {"remote.origin.url", "https://localhost:1/none"}}) {
    Config("remote.origin.uploadpack", Trap("uploadpack"));
    Config("core.sshCommand", Trap("ssh"));
    Config(key, value);
    const auto set = ReadKernelSet("HEAD", "kernels");
    EXPECT_TRUE(absl::IsInvalidArgument(set.status())) << set.status();
    EXPECT_THAT(std::string(set.status().message()), HasSubstr("git fetch --refetch"));
  }
  EXPECT_EQ(Marks(), "");
}

TEST_F(HostileCloneTest, SubmodulesAndWorktreesAreNotEntered) {
  Write(".gitmodules", absl::StrCat("[submodule \"kernels/m\"]\npath = kernels/m\nurl = ext::",
                                    Trap("submodule"), "\nupdate = !", Trap("update"), "\n"));
  Git("update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,kernels/m");
  Commit();
  Config("submodule.recurse", "true");
  Config("core.worktree", (top_ / "elsewhere").string());
  fs::create_directories(top_ / "elsewhere");
  const auto set = ReadKernelSet("HEAD", "kernels");
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->kernels.size(), 1u);
  EXPECT_EQ(Marks(), "");
}

TEST_F(HostileCloneTest, TheCallersVariablesForGitAreLeftOut) {
  Commit();
  setenv("GIT_SSH_COMMAND", Trap("env-ssh").c_str(), 1);
  setenv("GIT_EXTERNAL_DIFF", Trap("env-diff").c_str(), 1);
  setenv("GIT_PAGER", Trap("env-pager").c_str(), 1);
  setenv("GIT_EXEC_PATH", (top_ / "traps").c_str(), 1);
  setenv("GIT_CONFIG_COUNT", "1", 1);
  setenv("GIT_CONFIG_KEY_0", "core.fsmonitor", 1);
  setenv("GIT_CONFIG_VALUE_0", Trap("env-fsmonitor").c_str(), 1);
  setenv("GIT_DIR", (top_ / "nowhere").c_str(), 1);
  ReadEverySide();
}

TEST_F(HostileCloneTest, AProgramNamedGitInTheCloneIsNotGit) {
  Commit();
  fs::copy_file(Trap("git"), "git");
  const std::string path = std::getenv("PATH");
  setenv("PATH", absl::StrCat(".:", path).c_str(), 1);
  ReadEverySide();
  setenv("PATH", path.c_str(), 1);
}

TEST_F(HostileCloneTest, WhatNeverEndsIsStopped) {
  Commit();
  ASSERT_EQ(mkfifo(".git/packed-refs", 0600), 0);
  const auto set = ReadKernelSet("main~0", "kernels", {.timeout = std::chrono::milliseconds(300)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(set.status())) << set.status();
  EXPECT_THAT(std::string(set.status().message()), HasSubstr("name a folder instead"));
}

// Ten folders in ten folders in ...: 10^8 files of a few kilobytes of objects.
TEST_F(HostileCloneTest, ATreeWithoutEndIsRefused) {
  const std::string make =
      "sh -c 'T=$(echo x | git hash-object -w --stdin); L=\"100644 blob\"; "
      "for depth in 1 2 3 4 5 6 7 8; do "
      "T=$(for i in 0 1 2 3 4 5 6 7 8 9; do printf \"%s %s\\tlongname$i\\n\" \"$L\" $T; done | "
      "git mktree); L=\"040000 tree\"; done; "
      "K=$(printf \"040000 tree %s\\tkernels\\n\" $T | git mktree); "
      "git update-ref refs/heads/bomb $(git -c user.name=a -c user.email=a@b commit-tree $K -m "
      "bomb)'";
  ASSERT_EQ(std::system(make.c_str()), 0);
  const auto set = ReadKernelSet("bomb", "kernels");
  EXPECT_TRUE(absl::IsInvalidArgument(set.status())) << set.status();
  EXPECT_THAT(std::string(set.status().message()), HasSubstr("too many files"));
}

TEST_F(HostileCloneTest, ACloneOfAnotherUserIsNotRead) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  Commit();
  ASSERT_EQ(std::system(absl::StrCat("chown -R 12345:12345 ", top_.string()).c_str()), 0);
  const auto set = ReadKernelSet("HEAD", "kernels");
  EXPECT_TRUE(absl::IsInvalidArgument(set.status())) << set.status();
  EXPECT_THAT(std::string(set.status().message()), HasSubstr("safe.directory"));
  EXPECT_TRUE(ReadKernelSet(".", "kernels").ok()) << "a folder needs no git";
}

TEST_F(HostileCloneTest, LinksOfACommitStayInTheirFolder) {
  fs::remove("kernels/a/a.cu");
  Write("kernels/a/real.cu", "inside\n");
  fs::create_symlink("real.cu", "kernels/a/a.cu");
  Commit();
  const auto inside = ReadKernelSet("HEAD", "kernels");
  ASSERT_TRUE(inside.ok()) << inside.status();
  EXPECT_EQ(inside->kernels.at("a").files().at("a.cu"), "inside\n");
  Write("kernels/b.cu", "outside\n");
  for (const char* target : {"../b.cu", "/etc/passwd", "x/../../b.cu"}) {
    fs::remove("kernels/a/a.cu");
    fs::create_symlink(target, "kernels/a/a.cu");
    Commit();
    const auto outside = ReadKernelSet("HEAD", "kernels");
    EXPECT_TRUE(absl::IsInvalidArgument(outside.status())) << target;
    EXPECT_THAT(std::string(outside.status().message()), HasSubstr("leads out of its folder"));
  }
  fs::remove("kernels/a/a.cu");
  fs::create_symlink("a.cu", "kernels/a/a.cu");
  Commit();
  EXPECT_THAT(std::string(ReadKernelSet("HEAD", "kernels").status().message()),
              HasSubstr("circle"));
}

TEST_F(HostileCloneTest, AWorktreeAndAFetchedHeadAreRead) {
  Commit();
  Git(absl::StrCat("worktree add -q -b other ", (top_ / "tree").string()));
  Git(absl::StrCat("fetch -q ", (top_ / "clone").string(), " main"));
  EXPECT_TRUE(ReadKernelSet("FETCH_HEAD", "kernels").ok());
  fs::current_path(top_ / "tree");
  Write("kernels/a/a.cu", "of the worktree\n");
  Commit();
  const auto set = ReadKernelSet("HEAD", "kernels");
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->kernels.at("a").files().at("a.cu"), "of the worktree\n");
  EXPECT_EQ(ReadKernelSet("HEAD~1", "kernels")->kernels.at("a").files().at("a.cu"), "committed\n");
}

}  // namespace
}  // namespace tune::client
