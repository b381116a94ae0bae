// SPDX-License-Identifier: Apache-2.0
// The wheel's stand-ins for functions of glibc, as they work on a host whose glibc has none of
// them.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>

#define dlsym(handle, name) nullptr
namespace tune::compat {
#include "cmake/portable/glibc_compat.c"
}  // namespace tune::compat
#undef dlsym

namespace tune {
namespace {

timespec InMilliseconds(int64_t ms) {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  time.tv_nsec += ms * 1000000;
  time.tv_sec += time.tv_nsec / 1000000000;
  time.tv_nsec %= 1000000000;
  return time;
}

int WaitUntil(const timespec& until) {
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  const int error = compat::pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until);
  pthread_mutex_unlock(&mutex);
  return error;
}

// The exit code of a shell that the actions prepare.
int RunShell(posix_spawn_file_actions_t* actions, const std::string& script) {
  std::string text = script;
  char shell[] = "/bin/sh", flag[] = "-c";
  char* const arguments[] = {shell, flag, text.data(), nullptr};
  pid_t pid = -1;
  EXPECT_EQ(posix_spawn(&pid, shell, actions, nullptr, arguments, environ), 0);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WEXITSTATUS(status);
}

TEST(GlibcCompatTest, WaitEndsAtItsTimeAndNotBefore) {
  const timespec until = InMilliseconds(60);
  EXPECT_EQ(WaitUntil(until), ETIMEDOUT);
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t late_ns = (now.tv_sec - until.tv_sec) * 1000000000 + now.tv_nsec - until.tv_nsec;
  EXPECT_GE(late_ns, -1000000);  // the two clocks are read one after the other
  EXPECT_LT(late_ns, 5000000000);
}

TEST(GlibcCompatTest, WaitForTimeThatIsPastEndsAtOnce) {
  EXPECT_EQ(WaitUntil({.tv_sec = 0, .tv_nsec = 0}), ETIMEDOUT);
}

TEST(GlibcCompatTest, ChildHasNoDescriptorFromTheLowestThatIsClosed) {
  const int kept = fcntl(STDERR_FILENO, F_DUPFD, 20);
  const int closed = fcntl(STDERR_FILENO, F_DUPFD, 40);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  ASSERT_EQ(compat::posix_spawn_file_actions_addclosefrom_np(&actions, 40), 0);
  EXPECT_EQ(RunShell(&actions, "test -e /proc/$$/fd/" + std::to_string(kept)), 0);
  EXPECT_EQ(RunShell(&actions, "test -e /proc/$$/fd/" + std::to_string(closed)), 1);
  posix_spawn_file_actions_destroy(&actions);
  close(kept);
  close(closed);
}

TEST(GlibcCompatTest, ChildStartsInTheFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  EXPECT_EQ(compat::posix_spawn_file_actions_addchdir_np(&actions, "/nowhere"), ENOENT);
  ASSERT_EQ(compat::posix_spawn_file_actions_addchdir_np(&actions, "/usr"), 0);
  EXPECT_EQ(RunShell(&actions, "test \"$(pwd -P)\" = /usr"), 0);
  posix_spawn_file_actions_destroy(&actions);
  std::filesystem::current_path(before);
}

TEST(GlibcCompatTest, RandomNumbersDifferAndThreadHasItsId) {
  std::set<uint32_t> numbers;
  for (int i = 0; i < 100; ++i) numbers.insert(compat::arc4random());
  EXPECT_GT(numbers.size(), 95u);
  EXPECT_EQ(compat::gettid(), getpid());
}

}  // namespace
}  // namespace tune
