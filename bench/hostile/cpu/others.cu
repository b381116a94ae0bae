// SPDX-License-Identifier: Apache-2.0
// Other processes: their memory, environment, signals, priorities.
#include "attack.h"

static int read_daemon_environ() {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/environ", static_cast<int>(DAEMON));
  return ReadFile(path);
}
static int read_init_environ() { return ReadFile("/proc/1/environ"); }
static int read_daemon_command_line() {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/cmdline", static_cast<int>(DAEMON));
  return ReadFile(path);
}
static int list_processes() { return ListFolder("/proc"); }
static int read_own_secrets() {
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (strstr(*variable, SECRET) != nullptr) return kThrough;
  }
  return Held(ENOENT);
}
static int open_daemon_memory() {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/mem", static_cast<int>(DAEMON));
  return Judge(open(path, O_RDWR));
}
static int open_daemon_file() {
  for (int fd = 0; fd < 64; ++fd) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", static_cast<int>(DAEMON), fd);
    if (open(path, O_RDWR | O_NONBLOCK) >= 0) return kThrough;
  }
  return Held(errno);
}
static int trace_daemon() { return Judge(syscall(SYS_ptrace, 0x4206, DAEMON, 0, 0)); }  // seize
static int read_daemon_memory() {
  static char byte;
  struct {
    void* base;
    size_t size;
  } local = {&byte, 1}, remote = {reinterpret_cast<void*>(&ReadFile), 1};
  const long got = syscall(SYS_process_vm_readv, DAEMON, &local, 1, &remote, 1, 0);
  return got < 0 && errno == EFAULT ? kThrough : Judge(got);
}
static int write_daemon_memory() {
  static char byte;
  struct {
    void* base;
    size_t size;
  } local = {&byte, 1}, remote = {nullptr, 1};
  const long got = syscall(SYS_process_vm_writev, DAEMON, &local, 1, &remote, 1, 0);
  return got < 0 && errno == EFAULT ? kThrough : Judge(got);
}
static long OpenDaemon() { return syscall(434, DAEMON, 0); }  // pidfd_open
static int steal_descriptor() {
  const long daemon = OpenDaemon();
  return daemon < 0 ? Held(errno) : Judge(syscall(438, daemon, 1, 0));  // pidfd_getfd
}
static int advise_daemon() {
  const long daemon = OpenDaemon();
  struct {
    void* base;
    size_t size;
  } range = {nullptr, 4096};
  const long done = daemon < 0 ? -1 : syscall(440, daemon, &range, 1, 21, 0);  // process_madvise
  return done < 0 && errno == ENOMEM ? kThrough : Judge(done);
}
static int move_daemon_pages() { return Judge(syscall(SYS_migrate_pages, DAEMON, 0, 0, 0)); }
static int compare_with_daemon() { return Judge(syscall(SYS_kcmp, getpid(), DAEMON, 0, 0, 0)); }

// A signal that a process ignores unless it asks for it: getting through harms nobody.
static int kill_daemon() { return Judge(kill(DAEMON, SIGURG)); }
static int kill_thread() { return Judge(syscall(SYS_tgkill, DAEMON, DAEMON, SIGURG)); }
static int kill_thread_2() { return Judge(syscall(SYS_tkill, DAEMON, SIGURG)); }
static int kill_group() { return Judge(kill(-getpgid(DAEMON), SIGURG)); }
static int kill_everybody() { return Judge(kill(-1, 0)); }
static int queue_signal() {
  int info[32] = {SIGURG, 0, -1};  // SI_QUEUE
  return Judge(syscall(SYS_rt_sigqueueinfo, DAEMON, SIGURG, info));
}
static int queue_signal_to_thread() {
  int info[32] = {SIGURG, 0, -1};
  return Judge(syscall(SYS_rt_tgsigqueueinfo, DAEMON, DAEMON, SIGURG, info));
}
static int signal_by_descriptor() {
  const long daemon = OpenDaemon();
  return daemon < 0 ? Held(errno) : Judge(syscall(424, daemon, SIGURG, 0, 0));
}
// These would end the daemon.
static int signal_by_file_owner() {
  int ends[2];
  if (pipe(ends) != 0) return Held(errno);
  if (fcntl(ends[0], F_SETOWN, DAEMON) != 0) return Held(errno);
  fcntl(ends[0], 10, SIGTERM);  // F_SETSIG
  fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK);
  if (write(ends[1], "x", 1) != 1) return Held(errno);
  return kAttempted;
}
static int signal_by_socket_owner() {
  if (fcntl(3, F_SETOWN, DAEMON) != 0) return Held(errno);
  fcntl(3, 10, SIGTERM);
  fcntl(3, F_SETFL, O_ASYNC);
  return kAttempted;
}
static int signal_by_lease() {
  const int fd = open(InScratch("lease"), O_CREAT | O_RDWR, 0600);
  if (fd < 0) return Held(errno);
  fcntl(fd, F_SETOWN, DAEMON);
  if (fcntl(fd, 1024, F_WRLCK) != 0) return Held(errno);  // F_SETLEASE
  open(InScratch("lease"), O_RDONLY | O_NONBLOCK);
  return kAttempted;
}
static int signal_by_timer() {
  int event[16] = {0, 0, SIGTERM, 4, static_cast<int>(DAEMON)};  // SIGEV_THREAD_ID
  int timer = 0;
  if (syscall(SYS_timer_create, 1, event, &timer) != 0) return Held(errno);
  return kThrough;
}
static int terminate_daemon() { return Judge(kill(DAEMON, SIGTERM)); }

static int slow_daemon_down() { return Judge(syscall(SYS_setpriority, 0, DAEMON, 15)); }
static int bind_daemon() {
  unsigned long first = 1;
  return Judge(syscall(SYS_sched_setaffinity, DAEMON, sizeof(first), &first));
}
static int schedule_daemon() {
  int priority = 0;
  return Judge(syscall(SYS_sched_setscheduler, DAEMON, 5, &priority));  // idle
}
static int schedule_daemon_io() { return Judge(syscall(SYS_ioprio_set, 1, DAEMON, 3 << 13)); }
static int limit_daemon() {
  unsigned long limit[2] = {64, 64};
  return Judge(syscall(SYS_prlimit64, DAEMON, 7, limit, 0));  // open files
}
static int sacrifice_daemon() {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", static_cast<int>(DAEMON));
  return Judge(open(path, O_WRONLY));
}
static int survive_out_of_memory() {
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY);
  return fd < 0 ? Held(errno) : Judge(write(fd, "-900", 4));
}
static int run_before_others() {
  int priority = 1;
  if (syscall(SYS_sched_setscheduler, 0, 1, &priority) != 0) return Held(errno);  // FIFO
  priority = 0;
  syscall(SYS_sched_setscheduler, 0, 0, &priority);
  return kThrough;
}
static int raise_own_priority() { return Judge(syscall(SYS_setpriority, 0, 0, -19)); }

#define ACTS                                                                                    \
  read_daemon_environ, read_init_environ, read_daemon_command_line, list_processes,             \
      read_own_secrets, open_daemon_memory, open_daemon_file, trace_daemon, read_daemon_memory, \
      write_daemon_memory, steal_descriptor, advise_daemon, move_daemon_pages,                  \
      compare_with_daemon, kill_daemon, kill_thread, kill_thread_2, kill_group, kill_everybody, \
      queue_signal, queue_signal_to_thread, signal_by_descriptor, signal_by_file_owner,         \
      signal_by_socket_owner, signal_by_lease, signal_by_timer, terminate_daemon,               \
      slow_daemon_down, bind_daemon, schedule_daemon, schedule_daemon_io, limit_daemon,         \
      sacrifice_daemon, survive_out_of_memory, run_before_others, raise_own_priority

#include "entry.h"
