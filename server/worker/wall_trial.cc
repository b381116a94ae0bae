// SPDX-License-Identifier: Apache-2.0
#include "server/worker/wall_trial.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tune::server {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr int kFilesToTry = 32;
constexpr unsigned kHoldSeconds = 2;
// Files of its folder in /proc that reveal more than it needs, or give access to itself.
constexpr const char* kOwnEntries[] = {"mem",     "environ",   "fd",     "task",
                                       "net/tcp", "mountinfo", "cmdline"};
constexpr long kMemfdSecret = 447;  // newer than the headers of the systems we build on

// The result of a system call, made without the C library: it may refuse what the kernel would do.
template <typename... Arguments>
long Call(long number, Arguments... arguments) {
  return syscall(number, arguments...);
}

// Did a call that cannot succeed get as far as the kernel's own check of its arguments?
bool Reaches(long result, int error) { return result >= 0 || errno == error; }

bool Opens(const std::string& path, int flags) {
  const int fd = static_cast<int>(Call(__NR_openat, AT_FDCWD, path.c_str(), flags, 0600));
  if (fd >= 0) close(fd);
  return fd >= 0;
}

bool OpensSocket(int family, int type) {
  const int fd = static_cast<int>(Call(__NR_socket, family, type, 0));
  if (fd >= 0) close(fd);
  return fd >= 0;
}

// Runs `act` in a child process and gives what it returns; nothing if there can be no child.
template <typename Act>
bool HasChild(Act act) {
  const pid_t child = static_cast<pid_t>(Call(__NR_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) Call(__NR_exit_group, act() ? 1 : 0);
  if (child < 0) return false;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

bool StartsThread() {
  pthread_t thread;
  if (pthread_create(
          &thread, nullptr, [](void*) -> void* { return nullptr; }, nullptr) != 0) {
    return false;
  }
  pthread_join(thread, nullptr);
  return true;
}

bool HasPrivileges(WorkerRole role) {
  uint64_t effective = 0;
  bool no_new = false;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (absl::StartsWith(line, "CapEff:")) effective = std::stoull(line.substr(7), nullptr, 16);
    if (absl::StartsWith(line, "NoNewPrivs:")) no_new = absl::StrContains(line, '1');
  }
  const uint64_t counting = uint64_t{1} << CAP_SYS_ADMIN | uint64_t{1} << CAP_PERFMON;
  if (role == WorkerRole::kCounter) effective &= ~counting;
  return effective != 0 || !no_new;
}

bool IsLimited(__rlimit_resource resource, int64_t most) {
  rlimit limit = {};
  return getrlimit(resource, &limit) == 0 && limit.rlim_max <= static_cast<rlim_t>(most);
}

// Uses memory for a while, during which the daemon or the kernel is to end this process.
void HoldMemory(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  memset(memory, 1, bytes);
  sleep(kHoldSeconds);
  munmap(memory, bytes);
}

class Trial {
 public:
  Trial(const Walls& walls, std::string planted, int daemon)
      : role_(walls.role()),
        scratch_(walls.scratch_dir()),
        limits_(walls.limits()),
        planted_(std::move(planted)),
        daemon_(daemon) {
    report_.set_landlock(walls.landlock());
  }

  v1::WorkerWalls Run() {
    TryFiles();
    TryModes();
    TrySignals();
    TryProcesses();
    TryChildren();
    TryNamespaces();
    TryNetwork();
    TryKernel();
    if (!IsAccelerator()) TryUncountedUse();
    TryLimits();
    return std::move(report_);
  }

 private:
  void Begin(const char* name) {
    wall_ = report_.add_walls();
    wall_->set_name(name);
    wall_->set_state(v1::WALL_STATE_STANDS);
  }
  // `done`: the act succeeded, so the wall does not stand.
  void Act(absl::string_view what, bool done) {
    if (!done) return;
    wall_->set_state(v1::WALL_STATE_MISSING);
    absl::StrAppend(wall_->mutable_note(), wall_->note().empty() ? "it could " : ", ", what);
  }
  void NotNeeded(const char* name, const char* why) {
    Begin(name);
    wall_->set_state(v1::WALL_STATE_NOT_NEEDED);
    wall_->set_note(why);
  }

  void TryFiles() {
    Begin("files");
    const std::string beside = planted_ + ".moved";
    Act("read the daemon's files", Opens(planted_, O_RDONLY));
    Act("write to them", Opens(planted_, O_WRONLY));
    Act("truncate them while it reads", Opens(planted_, O_RDONLY | O_TRUNC));
    Act("truncate them by name", Call(__NR_truncate, planted_.c_str(), 0) == 0);
    Act("make files beside them", Opens(beside, O_WRONLY | O_CREAT));
    Act("link them",
        Call(__NR_linkat, AT_FDCWD, planted_.c_str(), AT_FDCWD, beside.c_str(), 0) == 0);
    Act("move them",
        Call(__NR_renameat2, AT_FDCWD, planted_.c_str(), AT_FDCWD, beside.c_str(), 0) == 0);
    Act("remove them", Call(__NR_unlinkat, AT_FDCWD, planted_.c_str(), 0) == 0);
    Act("make folders", Call(__NR_mkdirat, AT_FDCWD, (planted_ + ".folder").c_str(), 0700) == 0);
    Act("read users' secrets", Opens("/etc/shadow", O_RDONLY));
    Act("write to temporary folders",
        Opens("/tmp", O_TMPFILE | O_WRONLY) || Opens("/dev/shm", O_TMPFILE | O_WRONLY));
    if (role_ == WorkerRole::kHostDevice) {
      Act("write to its scratch folder", Opens(scratch_ + "/file", O_WRONLY | O_CREAT));
    }
  }

  void TryModes() {
    Begin("modes");
    Act("change modes", Call(__NR_fchmodat, AT_FDCWD, planted_.c_str(), 0600) == 0);
    Act("change owners", Call(__NR_fchownat, AT_FDCWD, planted_.c_str(), -1, -1, 0) == 0);
    Act("change times", Call(__NR_utimensat, AT_FDCWD, planted_.c_str(), nullptr, 0) == 0);
    Act("set attributes",
        Reaches(Call(__NR_setxattr, planted_.c_str(), "user.tune", "1", 1, 0), EOPNOTSUPP));
  }

  void TrySignals() {
    Begin("signals");
    Act("signal the daemon", Call(__NR_kill, daemon_, 0) == 0);
    Act("signal its threads", Call(__NR_tgkill, daemon_, daemon_, 0) == 0);
    Act("signal any thread", Call(__NR_tkill, daemon_, 0) == 0);
    Act("queue signals", Reaches(Call(__NR_rt_sigqueueinfo, daemon_, 0, nullptr), EFAULT));
    Act("open the daemon as a file", Call(__NR_pidfd_open, daemon_, 0) >= 0);
    Act("have others signalled by files", fcntl(STDERR_FILENO, F_SETOWN, daemon_) == 0);
  }

  void TryProcesses() {
    Begin("processes");
    const std::string proc = absl::StrCat("/proc/", daemon_, "/");
    Act("trace", Reaches(Call(__NR_ptrace, PTRACE_PEEKDATA, daemon_, 0, 0), ESRCH));
    char byte = 0;
    const iovec here = {&byte, 1};
    const iovec there = {this, 1};
    Act("read others' memory",
        Reaches(Call(__NR_process_vm_readv, daemon_, &here, 1, &there, 1, 0), EFAULT));
    Act("read others' environment", Opens(proc + "environ", O_RDONLY));
    Act("open others' memory", Opens(proc + "mem", O_RDONLY));
    Act("list others' files", Opens(proc + "fd", O_RDONLY | O_DIRECTORY));
    Act("take others' files", Reaches(Call(__NR_pidfd_getfd, -1, 0, 0), EBADF));
    if (!IsAccelerator()) {
      for (const char* entry : kOwnEntries) {
        Act(absl::StrCat("open its own ", entry),
            Opens(absl::StrCat("/proc/self/", entry), O_RDONLY));
      }
    }
    if (HasChildren()) {
      Act("have its memory or pipes opened by what it starts",
          HasChild([] { return ReachesParent(getppid()); }));
    }
    rlimit limit = {};
    Act("read others' limits", Call(__NR_prlimit64, daemon_, RLIMIT_NOFILE, nullptr, &limit) == 0);
    Act("change others' priority",
        Reaches(Call(__NR_setpriority, PRIO_PROCESS, daemon_, 20), EACCES));
  }

  // Its memory, or a pipe or socket of its.
  static bool ReachesParent(int parent) {
    const std::string proc = absl::StrCat("/proc/", parent, "/");
    bool reaches = Opens(proc + "mem", O_RDONLY) || Opens(proc + "mem", O_WRONLY) ||
                   Opens(proc + "environ", O_RDONLY) || Opens(proc + "maps", O_RDONLY);
    for (int fd = 0; fd < kFilesToTry; ++fd) {
      for (const int mode : {O_RDONLY, O_WRONLY}) {
        reaches = reaches || Opens(absl::StrCat(proc, "fd/", fd), mode | O_NONBLOCK);
      }
    }
    return reaches;
  }

  bool IsAccelerator() const {
    return role_ == WorkerRole::kAccelerator || role_ == WorkerRole::kCounter;
  }

  bool HasChildren() const {
    return role_ == WorkerRole::kProgramCompiler || role_ == WorkerRole::kInterpreter;
  }

  void TryChildren() {
    if (HasChildren()) {
      Begin("children");  // they may be, and none may leave the group that is killed as one
      Act("leave its session", HasChild([] { return Call(__NR_setsid) >= 0; }));
      Act("leave its process group", HasChild([] { return Call(__NR_setpgid, 0, 0) == 0; }));
      Act("make a sibling of itself", MakesSibling());
      if (role_ == WorkerRole::kInterpreter) {
        Begin("programs");
        Act("run what it does not name", HasChild(RunsFalse));
      } else {
        NotNeeded("programs", "it starts the system's compiler");
      }
      NotNeeded("threads", "the compiler may use them");
      return;
    }
    Begin("children");
    Act("start processes", HasChild([] { return true; }));
#if defined(__x86_64__)
    Act("fork", Forks());
#endif
    Begin("programs");
    Act("run programs", Reaches(Call(__NR_execve, "/nonexistent", nullptr, nullptr), ENOENT));
    if (role_ == WorkerRole::kHostDevice) {
      Begin("threads");
      Act("start threads", StartsThread());
    } else {
      NotNeeded("threads", "its libraries use them; no foreign code runs in it");
    }
  }

  // False itself; true of a child that has become the program of that name, which ends with 1.
  static bool RunsFalse() {
    const char* const arguments[] = {"false", nullptr};
    Call(__NR_execve, "/bin/false", arguments, nullptr);
    return false;
  }

  static bool MakesSibling() {
    const long child = Call(__NR_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) Call(__NR_exit_group, 0);
    return child > 0;
  }

#if defined(__x86_64__)
  static bool Forks() {
    const long child = Call(__NR_fork);
    if (child == 0) Call(__NR_exit_group, 0);
    if (child > 0) waitpid(static_cast<pid_t>(child), nullptr, 0);
    return child > 0;
  }
#endif

  void TryNamespaces() {
    Begin("namespaces");
    Act("join one", Reaches(Call(__NR_setns, -1, 0), EBADF));
    Act("mount", Reaches(Call(__NR_mount, nullptr, "/nonexistent", nullptr, 0, nullptr), ENOENT));
    const long child = Call(__NR_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) Call(__NR_exit_group, 0);
    if (child > 0) waitpid(static_cast<pid_t>(child), nullptr, 0);
    Act("start a process in a new one", child > 0);
    Act("enter a new one", HasChildOrSelf([] { return Call(__NR_unshare, CLONE_NEWUSER) == 0; }));
  }

  // A process with threads cannot enter a user namespace, so a child tries if there can be one.
  template <typename Act>
  bool HasChildOrSelf(Act act) {
    return HasChildren() ? HasChild(act) : act() || errno == EINVAL;
  }

  void TryNetwork() {
    Begin("network");
    Act("open TCP sockets", OpensSocket(AF_INET, SOCK_STREAM));
    Act("open UDP sockets", OpensSocket(AF_INET6, SOCK_DGRAM));
    Act("open local sockets", OpensSocket(AF_UNIX, SOCK_STREAM));
    Act("talk to the kernel's network", OpensSocket(AF_NETLINK, SOCK_RAW));
    int pair[2];
    Act("make socket pairs", Call(__NR_socketpair, AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  }

  // Through these a hostile source would reach parts of the kernel that are seldom walked.
  void TryKernel() {
    Begin("kernel");
    Act("use io_uring", Reaches(Call(__NR_io_uring_setup, 1, nullptr), EFAULT));
    Act("load BPF", Reaches(Call(__NR_bpf, BPF_MAP_CREATE, nullptr, 0), EINVAL) && errno != EPERM);
    Act("read performance events",
        Reaches(Call(__NR_perf_event_open, nullptr, 0, -1, -1, 0), EFAULT));
    Act("use keys", Reaches(Call(__NR_keyctl, 0, -3, 0), ENOKEY));
    Act("handle page faults", Call(__NR_userfaultfd, 0) >= 0);
    Act("watch files", Call(__NR_inotify_init1, 0) >= 0);
    Act("change its personality", Call(__NR_personality, 0xffffffff) >= 0);
    Act("open files by handle", Reaches(Call(__NR_open_by_handle_at, -1, nullptr, 0), EFAULT));
  }

  // Attempts to take memory and disk that an observer outside would not see in time.
  void TryUncountedUse() {
    Begin("counted use");
    Act("make memory files", Call(__NR_memfd_create, "attempt", 0) >= 0);
    Act("make secret memory", Call(kMemfdSecret, 0) >= 0);
    Act("share memory", Maps(MAP_SHARED | MAP_ANONYMOUS));
    Act("share memory by its newer name", Maps(MAP_SHARED_VALIDATE | MAP_ANONYMOUS));
    Act("share zeros", MapsZeros());
    Act("use huge pages", Maps(MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB));
    Act("make System V memory", Reaches(Call(__NR_shmget, 0, 0, 0600 | 01000), EINVAL));
    Act("make message queues", Reaches(Call(__NR_msgctl, -1, 0, nullptr), EINVAL));
    Act("take disk at once", Reaches(Call(__NR_fallocate, -1, 0, 0, kPageBytes), EBADF));
    Act("have files without a name",
        Opens(scratch_.empty() ? "/tmp" : scratch_, O_TMPFILE | O_WRONLY));
    struct flock lock = {};
    lock.l_type = F_RDLCK;
    Act("lock files", fcntl(STDIN_FILENO, F_SETLK, &lock) == 0);
    Act("enlarge pipes", fcntl(STDERR_FILENO, F_SETPIPE_SZ, kPageBytes) >= 0);
  }

  static bool Maps(int flags) {
    const long at = Call(__NR_mmap, nullptr, kPageBytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (at != -1) munmap(reinterpret_cast<void*>(at), kPageBytes);
    return at != -1;
  }

  static bool MapsZeros() {
    const int fd = static_cast<int>(Call(__NR_openat, AT_FDCWD, "/dev/zero", O_RDWR, 0));
    if (fd < 0) return false;
    close(fd);
    return true;
  }

  void TryLimits() {
    Begin("privileges");
    Act("use privileges", HasPrivileges(role_));
    Begin("limits");
    Act("leave core files", !IsLimited(RLIMIT_CORE, 0));
    Act("write files of any size", !IsLimited(RLIMIT_FSIZE, limits_.file_bytes));
    Act("open any number of files", !IsLimited(RLIMIT_NOFILE, limits_.open_files));
    rlimit more = {};
    getrlimit(RLIMIT_NOFILE, &more);
    Act("raise its limits", Call(__NR_prlimit64, 0, RLIMIT_NOFILE, &more, nullptr) == 0);
    if (limits_.address_space_bytes == 0) return;
    Act("take any amount of memory", TakesMemory(limits_.address_space_bytes));
  }

  static bool TakesMemory(int64_t bytes) {
    const auto size = static_cast<size_t>(bytes);
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    munmap(memory, size);
    return true;
  }

  const WorkerRole role_;
  const std::string scratch_;
  const WallLimits limits_;
  const std::string planted_;
  const int daemon_;
  v1::WorkerWalls report_;
  v1::Wall* wall_ = nullptr;
};

}  // namespace

v1::WorkerWalls TryWalls(const Walls& walls, const worker::v1::TryWalls& request) {
  if (request.memory_bytes() > 0) {
    HoldMemory(static_cast<size_t>(request.memory_bytes()));
    return {};
  }
  return Trial(walls, request.planted_file(), request.daemon_pid()).Run();
}

}  // namespace tune::server
