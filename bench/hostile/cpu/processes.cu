// SPDX-License-Identifier: Apache-2.0
// New processes, programs and namespaces; children that outlive their worker.
#include "attack.h"

extern "C" int pthread_create(unsigned long*, const void*, void* (*)(void*), void*) noexcept;
extern "C" int pthread_join(unsigned long, void**);
extern "C" int posix_spawn(pid_t*, const char*, const void*, const void*, char* const*,
                           char* const*) noexcept;

constexpr int kForksMax = 200;
constexpr int kThreadsMax = 2000;
constexpr long kNewUser = 0x10000000, kNewNet = 0x40000000, kNewPid = 0x20000000,
               kNewMount = 0x00020000, kNewAll = 0x7e020000;

static int Cloned(long pid) {
  if (pid == 0) Linger();
  return Judge(pid);
}

static int fork_child() { return Cloned(fork()); }
static int fork_by_clone() { return Cloned(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }
static int fork_by_clone3() {
  unsigned long long arguments[8] = {};
  arguments[4] = SIGCHLD;  // exit_signal
  return Cloned(syscall(SYS_clone3, arguments, sizeof(arguments)));
}
static int fork_by_vfork() {
  const pid_t child = vfork();
  if (child == 0) _exit(0);
  return Judge(child);
}
static int fork_bomb() {
  int children = 0;
  for (int i = 0; i < kForksMax; ++i) {
    const pid_t child = fork();
    if (child == 0) Linger();
    children += child > 0;
  }
  return children > 0 ? kThrough : Held(errno);
}
// A child in a session of its own, whose parent is gone: the end of the worker's group misses it.
static int leave_a_survivor() {
  const pid_t child = fork();
  if (child > 0) return kThrough;
  if (child < 0) return Held(errno);
  setsid();
  if (fork() != 0) _exit(0);
  Linger();
}
static int join_the_daemons_group() { return Judge(setpgid(0, getpgid(DAEMON))); }
static int lead_a_session() { return Judge(setsid()); }

static void* Wait(void*) {
  usleep(500000);
  return nullptr;
}
static int thread_bomb() {
  static unsigned long threads[kThreadsMax];
  int count = 0;
  int error = 0;
  while (count < kThreadsMax && error == 0) {
    error = pthread_create(&threads[count], nullptr, &Wait, nullptr);
    count += error == 0;
  }
  for (int i = 0; i < count; ++i) pthread_join(threads[i], nullptr);
  return count == kThreadsMax ? kThrough : Held(error);
}
static void* Stay(void*) {
  TakeName();
  const double end = NowSeconds() + SECONDS;
  while (NowSeconds() < end) continue;
  return nullptr;
}
static int leave_a_thread() {
  unsigned long thread;
  const int error = pthread_create(&thread, nullptr, &Stay, nullptr);
  return error == 0 ? kThrough : Held(error);
}

// The shell's only word is a file that it makes.
#define SAYS_WHO "touch " OUTSIDE "/executed" NONCE
static char* const kShell[] = {const_cast<char*>("/bin/sh"), const_cast<char*>("-c"),
                               const_cast<char*>(SAYS_WHO), nullptr};
static int execute_shell() { return Judge(execve("/bin/sh", kShell, environ)); }
static int spawn_shell() {
  pid_t child = 0;
  const int error = posix_spawn(&child, "/bin/sh", nullptr, nullptr, kShell, environ);
  return error == 0 ? kThrough : Held(error);
}
static int run_shell() {
  const int status = system(SAYS_WHO);
  return status == 0 ? kThrough : Held(status < 0 ? errno : status >> 8);
}
static int execute_memory() {
  const long fd = syscall(SYS_memfd_create, "hostile", 0);
  if (fd < 0) return Held(errno);
  const char script[] = "#!/bin/sh\n" SAYS_WHO "\n";
  if (write(static_cast<int>(fd), script, sizeof(script) - 1) < 0) return Held(errno);
  return Judge(syscall(SYS_execveat, fd, "", kShell, environ, AT_EMPTY_PATH));
}
static int unshare_user() { return Judge(syscall(SYS_unshare, kNewUser)); }
static int unshare_net() { return Judge(syscall(SYS_unshare, kNewNet)); }
static int unshare_pid() { return Judge(syscall(SYS_unshare, kNewPid)); }
static int unshare_mount() { return Judge(syscall(SYS_unshare, kNewMount)); }
static int clone_into_all() { return Cloned(syscall(SYS_clone, kNewAll | SIGCHLD, 0, 0, 0, 0)); }
static int clone3_into_user() {
  unsigned long long arguments[8] = {};
  arguments[0] = kNewUser;
  arguments[4] = SIGCHLD;
  return Cloned(syscall(SYS_clone3, arguments, sizeof(arguments)));
}
static int enter_namespace() {
  const long daemon = syscall(434, DAEMON, 0);  // pidfd_open
  return daemon < 0 ? Held(errno) : Judge(syscall(SYS_setns, daemon, kNewMount));
}
static int become_another_user() { return Judge(syscall(SYS_setresuid, 65534, 65534, 65534)); }

#define ACTS                                                                              \
  fork_child, fork_by_clone, fork_by_clone3, fork_by_vfork, fork_bomb, leave_a_survivor,  \
      join_the_daemons_group, lead_a_session, thread_bomb, leave_a_thread, execute_shell, \
      spawn_shell, run_shell, execute_memory, unshare_user, unshare_net, unshare_pid,     \
      unshare_mount, clone_into_all, clone3_into_user, enter_namespace, become_another_user

#include "entry.h"
