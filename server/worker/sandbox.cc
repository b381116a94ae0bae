// SPDX-License-Identifier: Apache-2.0
#include "server/worker/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

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

// Sanitizers reserve terabytes of shadow memory; a limit on address space would stop them at once.
#if defined(__SANITIZE_ADDRESS__) || defined(TUNE_THREAD_SANITIZER)  // CMakePresets.json
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

bool SetLimit(__rlimit_resource resource, int64_t value) {
  const rlimit limit = {static_cast<rlim_t>(value), static_cast<rlim_t>(value)};
  return setrlimit(resource, &limit) == 0;
}

// Calls that a worker has no use for, and through which a hostile source could reach the network,
// other processes or the kernel's less walked paths.
std::vector<uint32_t> DeniedCalls(const Sandbox& sandbox) {
  std::vector<uint32_t> denied = {
      __NR_ptrace,
      __NR_process_vm_readv,
      __NR_process_vm_writev,
      __NR_mount,
      __NR_umount2,
      __NR_pivot_root,
      __NR_setns,
      __NR_unshare,
      __NR_bpf,
      __NR_perf_event_open,
      __NR_userfaultfd,
      __NR_keyctl,
      __NR_add_key,
      __NR_request_key,
      __NR_kexec_load,
      __NR_init_module,
      __NR_finit_module,
      __NR_delete_module,
      __NR_open_by_handle_at,
      __NR_pidfd_getfd,
      __NR_io_uring_setup,
      __NR_io_uring_enter,
      __NR_io_uring_register,
      // Without these there is no network, nor a way to another local service, so no network
      // namespace is needed. The socketpair to the daemon is open already.
      __NR_socket,
      __NR_connect,
      __NR_bind,
      __NR_listen,
  };
  if (!sandbox.allow_exec) {
    denied.push_back(__NR_execve);
    denied.push_back(__NR_execveat);
  }
  return denied;
}

bool InstallCallFilter(const Sandbox& sandbox) {
  const std::vector<uint32_t> denied = DeniedCalls(sandbox);
  std::vector<sock_filter> program = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kAuditArch, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kFirstForeignCall, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
  };
  for (uint32_t call : denied) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
  return syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0;
}

// Landlock rights of the first version, which every kernel with Landlock knows.
constexpr uint64_t kReadRights =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kWriteRights = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                                  LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
                                  LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SYM |
                                  LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
                                  LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO;
constexpr uint64_t kFileRights =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;

// False only if the path exists and the kernel refused the rule.
bool AllowPath(int ruleset, const std::string& path, uint64_t rights) {
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return true;
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) rights &= kFileRights;
  landlock_path_beneath_attr rule = {};
  rule.allowed_access = rights;
  rule.parent_fd = fd;
  const bool added =
      syscall(__NR_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
  close(fd);
  return added;
}

bool RestrictFiles(const Sandbox& sandbox) {
  landlock_ruleset_attr handled = {};
  handled.handled_access_fs = kReadRights | kWriteRights;
  const int ruleset =
      static_cast<int>(syscall(__NR_landlock_create_ruleset, &handled, sizeof(handled), 0));
  if (ruleset < 0) return false;
  // The store, its keys and everybody's home are not on this list.
  std::vector<std::string> readable = {"/usr",
                                       "/lib",
                                       "/lib64",
                                       "/bin",
                                       "/etc/alternatives",
                                       "/etc/ld.so.cache",
                                       "/sys/devices/system/cpu",
                                       "/proc/cpuinfo",
                                       "/proc/meminfo",
                                       "/proc/self",
                                       "/dev/urandom"};
  readable.insert(readable.end(), sandbox.read_dirs.begin(), sandbox.read_dirs.end());
  bool done = true;
  for (const std::string& path : readable) done = AllowPath(ruleset, path, kReadRights) && done;
  done = AllowPath(ruleset, "/dev/null", kReadRights | LANDLOCK_ACCESS_FS_WRITE_FILE) && done;
  done = AllowPath(ruleset, sandbox.scratch_dir, kReadRights | kWriteRights) && done;
  done = syscall(__NR_landlock_restrict_self, ruleset, 0) == 0 && done;
  close(ruleset);
  return done;
}

}  // namespace

std::string EnterSandbox(const Sandbox& sandbox) {
  std::vector<std::string> missing;
  auto note = [&](const char* what) {
    missing.push_back(absl::StrCat(what, " (", strerror(errno), ")"));
  };
  if (!SetLimit(RLIMIT_CORE, 0)) note("core files could not be turned off");
  if (sandbox.file_bytes_max > 0 && !SetLimit(RLIMIT_FSIZE, sandbox.file_bytes_max)) {
    note("no limit on the size of files");
  }
  if (sandbox.address_space_bytes_max > 0 && !kSanitized &&
      !SetLimit(RLIMIT_AS, sandbox.address_space_bytes_max)) {
    note("no limit on memory");
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) note("new privileges are not ruled out");
  if (!sandbox.scratch_dir.empty() && !RestrictFiles(sandbox)) {
    note("files are not restricted: this kernel has no Landlock");
  }
  if (sandbox.filter_calls && !InstallCallFilter(sandbox)) note("system calls are not filtered");
  return absl::StrJoin(missing, "; ");
}

std::vector<std::string> LoadedLibraryDirs() {
  std::set<std::string> dirs;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t slash = line.find('/');
    if (slash == std::string::npos || !absl::StrContains(line, ".so")) continue;
    const std::filesystem::path file = line.substr(slash);
    const std::filesystem::path dir = file.parent_path();
    dirs.insert(dir);
    if (!absl::StartsWith(file.filename().string(), "libnvrtc")) continue;
    // <toolkit>/lib64, or <site-packages>/nvidia/<component>/lib from PyPI.
    const std::filesystem::path component = dir.parent_path();
    const bool wheel = component.parent_path().filename() == "nvidia";
    dirs.insert(wheel ? component.parent_path() : component);
  }
  dirs.erase("/");
  return {dirs.begin(), dirs.end()};
}

void LimitCpuSeconds(int64_t seconds) {
  rusage used = {};
  rlimit limit = {};
  if (getrusage(RUSAGE_SELF, &used) != 0 || getrlimit(RLIMIT_CPU, &limit) != 0) return;
  limit.rlim_cur = static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec + seconds + 1);
  setrlimit(RLIMIT_CPU, &limit);
}

}  // namespace tune::server
