// SPDX-License-Identifier: Apache-2.0
#include "server/worker/call_filter.h"

#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tune::server {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kAuditArch = AUDIT_ARCH_X86_64;
constexpr uint32_t kFirstForeignCall = 0x40000000;  // the x32 ABI would slip past the list
#elif defined(__aarch64__)
constexpr uint32_t kAuditArch = AUDIT_ARCH_AARCH64;
constexpr uint32_t kFirstForeignCall = 0xffffffff;
#else
#error "add the seccomp constants of this architecture"
#endif

// Newer than the headers of the systems we build on.
constexpr uint32_t kSetVma = 0x53564d41;

constexpr uint32_t kNamespaceFlags = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                     CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

// Builds the filter: the system calls and, for some, the arguments that are allowed. A filter sees
// only numbers, not what a pointer points to, so a call whose choice lies in memory (clone3,
// openat2) cannot be listed at all.
class FilterProgram {
 public:
  FilterProgram() {
    Load(offsetof(seccomp_data, arch));
    program_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kAuditArch, 1, 0));
    Return(SECCOMP_RET_KILL_PROCESS);
    Load(offsetof(seccomp_data, nr));
    program_.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kFirstForeignCall, 0, 1));
    Return(SECCOMP_RET_ERRNO | ENOSYS);
  }

  void Allow(std::initializer_list<uint32_t> calls) {
    for (uint32_t call : calls) Block(call, {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)});
  }

  // `error` for calls that the C library can do without.
  void Fail(uint32_t call, uint32_t error) {
    Block(call, {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error)});
  }

  // Allowed if the masked argument is one of the values.
  void AllowIf(uint32_t call, int argument, uint32_t mask, std::initializer_list<uint32_t> values) {
    Compare(call, argument, mask, values, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EPERM);
  }

  // Allowed unless it is.
  void AllowUnless(uint32_t call, int argument, uint32_t mask,
                   const std::vector<uint32_t>& values) {
    Compare(call, argument, mask, values, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW);
  }

  // Allowed if the first argument is 0 and either the third is null or the second is one of the
  // values: prlimit of this process that asks, or that sets one of these limits.
  void AllowLimits(std::initializer_list<uint32_t> resources) {
    std::vector<sock_filter> body = {LoadArgument(0, 0),
                                     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                     LoadArgument(2, 0),
                                     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3),
                                     LoadArgument(2, 4),
                                     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                                     LoadArgument(1, 0)};
    for (uint32_t resource : resources) {
      body.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, resource, 0, 1));
      body.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    }
    body.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
    Block(__NR_prlimit64, body);
  }

  bool Install() {
    Return(SECCOMP_RET_ERRNO | EPERM);
    sock_fprog filter = {static_cast<unsigned short>(program_.size()), program_.data()};
    return syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0;
  }

 private:
  void Load(uint32_t offset) { program_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)); }
  void Return(uint32_t action) { program_.push_back(BPF_STMT(BPF_RET | BPF_K, action)); }

  // Half of an argument: the lower one at byte 0, the upper at byte 4.
  static sock_filter LoadArgument(int argument, uint32_t byte) {
    const auto offset = static_cast<uint32_t>(offsetof(seccomp_data, args) +
                                              sizeof(uint64_t) * static_cast<size_t>(argument));
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset + byte);
  }

  // The body ends in a return on every path, so the call's number need not be loaded again.
  void Block(uint32_t call, const std::vector<sock_filter>& body) {
    program_.push_back(
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, static_cast<unsigned char>(body.size())));
    program_.insert(program_.end(), body.begin(), body.end());
  }

  void Compare(uint32_t call, int argument, uint32_t mask, const std::vector<uint32_t>& values,
               uint32_t equal, uint32_t different) {
    std::vector<sock_filter> body = {LoadArgument(argument, 0),
                                     BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask)};
    for (uint32_t value : values) {
      body.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
      body.push_back(BPF_STMT(BPF_RET | BPF_K, equal));
    }
    body.push_back(BPF_STMT(BPF_RET | BPF_K, different));
    Block(call, body);
  }

  std::vector<sock_filter> program_;
};

constexpr uint32_t kWhole = 0xffffffff;

// Memory, time, the end, and what the C library does by itself.
void AllowToLive(FilterProgram& program, WorkerRole role) {
  program.Allow({__NR_munmap,
                 __NR_mprotect,
                 __NR_mremap,
                 __NR_madvise,
                 __NR_brk,
                 __NR_futex,
                 __NR_sched_yield,
                 __NR_membarrier,
                 __NR_rt_sigaction,
                 __NR_rt_sigprocmask,
                 __NR_rt_sigreturn,
                 __NR_sigaltstack,
                 __NR_restart_syscall,
                 __NR_set_robust_list,
                 __NR_rseq,
                 __NR_set_tid_address,
                 __NR_clock_gettime,
                 __NR_clock_getres,
                 __NR_clock_nanosleep,
                 __NR_nanosleep,
                 __NR_gettimeofday,
                 __NR_getrandom,
                 __NR_getpid,
                 __NR_gettid,
                 __NR_getppid,
                 __NR_getpgid,
                 __NR_getuid,
                 __NR_geteuid,
                 __NR_getgid,
                 __NR_getegid,
                 __NR_getrusage,
                 __NR_times,
                 __NR_sysinfo,
                 __NR_uname,
                 __NR_sched_getaffinity,
                 __NR_getcpu,
                 __NR_exit,
                 __NR_exit_group});
#if defined(__x86_64__)
  program.Allow({__NR_time, __NR_getpgrp, __NR_getrlimit, __NR_arch_prctl});
#endif
  if (role == WorkerRole::kInterpreter) {
    // Its parent of sources is not to be traced, and waits for what they leave running.
    program.AllowIf(__NR_prctl, 0, kWhole,
                    {PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, kSetVma, PR_SET_DUMPABLE,
                     PR_SET_CHILD_SUBREAPER});
    // Each source enters a domain of its own. A process can only take rights from itself so.
    program.Allow(
        {__NR_landlock_create_ruleset, __NR_landlock_add_rule, __NR_landlock_restrict_self});
  } else {
    program.AllowIf(__NR_prctl, 0, kWhole, {PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, kSetVma});
  }
  // abort() and raise(): signals to this process only.
  const auto self = static_cast<uint32_t>(getpid());
  program.AllowIf(__NR_tgkill, 0, kWhole, {self});
  program.Fail(__NR_clone3, ENOSYS);
  program.Fail(__NR_openat2, ENOSYS);
}

// The files that Landlock leaves, and the socket to the daemon.
void AllowToReadAndWrite(FilterProgram& program) {
  program.Allow({__NR_read,       __NR_write,  __NR_readv,       __NR_writev,     __NR_pread64,
                 __NR_pwrite64,   __NR_close,  __NR_close_range, __NR_fstat,      __NR_newfstatat,
                 __NR_statx,      __NR_lseek,  __NR_faccessat,   __NR_faccessat2, __NR_readlinkat,
                 __NR_getdents64, __NR_getcwd, __NR_dup,         __NR_dup3,       __NR_ppoll,
                 __NR_recvfrom,   __NR_sendto, __NR_fadvise64,   __NR_readahead,  __NR_fstatfs,
                 __NR_statfs});
#if defined(__x86_64__)
  program.Allow({__NR_stat, __NR_lstat, __NR_access, __NR_readlink, __NR_poll, __NR_dup2});
#endif
}

// Landlock before version 3 does not see a file that is truncated while it is opened for reading.
// `nameless`: also allows files without a name, which do not appear in their folder.
void AllowOpening(FilterProgram& program, bool nameless) {
  constexpr uint32_t kNameless = O_TMPFILE & ~O_DIRECTORY;
  std::vector<uint32_t> denied = {O_TRUNC, O_TRUNC | O_ACCMODE};
  for (uint32_t mode = O_RDONLY; !nameless && mode <= O_ACCMODE; ++mode) {
    denied.insert(denied.end(), {kNameless | mode, kNameless | O_TRUNC | mode});
  }
  const uint32_t mask = O_TRUNC | O_ACCMODE | (nameless ? 0 : kNameless);
  program.AllowUnless(__NR_openat, 2, mask, denied);
#if defined(__x86_64__)
  program.AllowUnless(__NR_open, 1, mask, denied);
#endif
}

// The memory and file calls of foreign code. All that they take must be visible to the daemon,
// which counts it from outside.
void AllowCountedUse(FilterProgram& program) {
  AllowOpening(program, /*nameless=*/false);
  // Shared memory without a file stays after it is unmapped; huge pages are in no resident set.
  constexpr uint32_t kHuge = MAP_HUGETLB;
  std::vector<uint32_t> denied = {MAP_ANONYMOUS | MAP_SHARED, MAP_ANONYMOUS | MAP_SHARED_VALIDATE};
  for (uint32_t type = 0; type <= MAP_TYPE; ++type) {
    denied.insert(denied.end(), {kHuge | type, kHuge | MAP_ANONYMOUS | type});
  }
  program.AllowUnless(__NR_mmap, 3, kHuge | MAP_ANONYMOUS | MAP_TYPE, denied);
  // Leaves out locks, which take kernel memory and block other users of a file, and the fcntl
  // commands that make the kernel signal a process (F_SETOWN, F_NOTIFY).
  program.AllowIf(__NR_fcntl, 1, kWhole,
                  {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL});
  // Disk blocks are then taken as they are written, so that the daemon has time to see it.
  // Compilers do without these calls.
  program.Fail(__NR_fallocate, EOPNOTSUPP);
  program.Fail(__NR_copy_file_range, ENOSYS);
}

// Whether it is a terminal and how much there is to read; a terminal cannot be written to by ioctl.
void AllowPlainControl(FilterProgram& program) {
  program.AllowIf(__NR_ioctl, 1, kWhole, {TCGETS, TIOCGWINSZ, FIONREAD, FIOCLEX, FIONCLEX});
}

void AllowThreads(FilterProgram& program) {
  program.AllowIf(__NR_clone, 0, CLONE_THREAD | CLONE_PARENT | kNamespaceFlags, {CLONE_THREAD});
}

// Files in the scratch folder: made, moved and removed. Their modes stay as they are.
void AllowScratchFiles(FilterProgram& program) {
  program.Allow({__NR_mkdirat, __NR_unlinkat, __NR_renameat, __NR_renameat2, __NR_ftruncate,
                 __NR_umask, __NR_fsync, __NR_fdatasync});
#if defined(__x86_64__)
  program.Allow({__NR_mkdir, __NR_rmdir, __NR_unlink, __NR_rename});
#endif
}

void AllowPrograms(FilterProgram& program) {
  program.Allow({__NR_execve, __NR_wait4, __NR_waitid, __NR_pipe2, __NR_chdir, __NR_fchdir});
#if defined(__x86_64__)
  program.Allow({__NR_vfork, __NR_fork, __NR_pipe});
#endif
  program.AllowIf(__NR_clone, 0, CLONE_PARENT | kNamespaceFlags, {0});
  program.AllowIf(__NR_kill, 0, kWhole, {0});  // its own group
}

// The calls that the driver and CUPTI were seen to make; of the network, only asking a local
// service that does not exist.
void AllowDriver(FilterProgram& program) {
  program.Allow({__NR_ioctl,
                 __NR_eventfd2,
                 __NR_memfd_create,
                 __NR_ftruncate,
                 __NR_mlock,
                 __NR_munlock,
                 __NR_mincore,
                 __NR_sched_setaffinity,
                 __NR_sched_getparam,
                 __NR_sched_getscheduler,
                 __NR_sched_get_priority_max,
                 __NR_sched_get_priority_min,
                 __NR_get_mempolicy,
                 __NR_set_mempolicy,
                 __NR_mbind,
                 __NR_timerfd_create,
                 __NR_timerfd_settime,
                 __NR_epoll_create1,
                 __NR_epoll_ctl,
                 __NR_epoll_pwait,
                 __NR_pipe2,
                 __NR_flock,
                 __NR_mmap,
                 __NR_fallocate,
                 __NR_copy_file_range,
                 __NR_getpriority});
#if defined(__x86_64__)
  program.Allow({__NR_pipe, __NR_epoll_wait, __NR_mkdir, __NR_unlink});
#endif
  AllowOpening(program, /*nameless=*/true);
  program.AllowIf(
      __NR_fcntl, 1, kWhole,
      {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW});
}

// A GPU's kernels make no system calls.
bool RunsForeignCode(WorkerRole role) {
  return role != WorkerRole::kAccelerator && role != WorkerRole::kCounter &&
         role != WorkerRole::kUnwalled;
}

}  // namespace

absl::Status FilterCalls(WorkerRole role) {
  FilterProgram program;
  AllowToLive(program, role);
  AllowToReadAndWrite(program);
  if (RunsForeignCode(role)) AllowCountedUse(program);
  switch (role) {
    case WorkerRole::kLibraryCompiler:
      AllowPlainControl(program);
      AllowThreads(program);
      AllowScratchFiles(program);
      program.AllowLimits({RLIMIT_CPU});  // each compile has its own
      break;
    case WorkerRole::kProgramCompiler:
    case WorkerRole::kInterpreter:
      AllowPlainControl(program);
      AllowScratchFiles(program);
      AllowPrograms(program);
      // Each compile has its own processor time; compilers raise the stack for their own recursion.
      program.AllowLimits({RLIMIT_CPU, RLIMIT_STACK});
      break;
    case WorkerRole::kHostDevice:
      AllowPlainControl(program);
      program.AllowLimits({});
      break;
    case WorkerRole::kAccelerator:
    case WorkerRole::kCounter:
    case WorkerRole::kUnwalled:
      AllowThreads(program);
      AllowScratchFiles(program);
      AllowDriver(program);
      program.AllowLimits({});
      break;
  }
  if (program.Install()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("system calls are not filtered: ", strerror(errno)));
}

}  // namespace tune::server
