// SPDX-License-Identifier: Apache-2.0
#include "server/worker/walls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/worker/call_filter.h"
#include "server/worker/file_rules.h"
#include "server/worker/host_memory.h"

namespace tune::server {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;
// Beyond any sane variant; straight-line code of 6000 statements takes NVRTC 3.6 GB.
constexpr int64_t kCompilerBytes = 4 * kGiB;
// No variant's assembly, object or log is as large.
constexpr int64_t kFileBytes = 64 * kMiB;
// The driver keeps what it compiled in files of its own.
constexpr int64_t kDriverFileBytes = kGiB;
constexpr uint32_t kCapabilities = 64;  // more than there are

// Sanitizers reserve terabytes of shadow memory; a limit on address space would stop them at once.
#if defined(__SANITIZE_ADDRESS__) || defined(TUNE_THREAD_SANITIZER)  // CMakePresets.json
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

bool IsAccelerator(WorkerRole role) {
  return role == WorkerRole::kAccelerator || role == WorkerRole::kCounter;
}

bool SetLimit(__rlimit_resource resource, int64_t value) {
  if (value == 0) return true;
  rlimit limit = {};
  if (getrlimit(resource, &limit) != 0) return false;
  limit.rlim_max = std::min(limit.rlim_max, static_cast<rlim_t>(value));
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(resource, &limit) == 0;
}

bool DisableCoreFiles() {
  const rlimit none = {0, 0};
  return setrlimit(RLIMIT_CORE, &none) == 0;
}

// Drops root's capabilities in this process and its children. A counter keeps CAP_SYS_ADMIN and
// CAP_PERFMON, which a driver may require for reading counters.
bool DropCapabilities(WorkerRole role) {
  const uint64_t counting = uint64_t{1} << CAP_SYS_ADMIN | uint64_t{1} << CAP_PERFMON;
  const uint64_t kept = role == WorkerRole::kCounter ? counting : 0;
  for (uint32_t capability = 0; capability < kCapabilities; ++capability) {
    // Without CAP_SETPCAP the call fails, but then the process cannot gain privileges either.
    if ((kept >> capability & 1) == 0) prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(__NR_capget, &header, data) != 0) return false;
  for (int half = 0; half < _LINUX_CAPABILITY_U32S_3; ++half) {
    const auto mask = static_cast<uint32_t>(kept >> (32 * half));
    data[half].permitted &= mask;
    data[half].effective &= mask;
    data[half].inheritable = 0;
  }
  return syscall(__NR_capset, &header, data) == 0;
}

// When memory runs out, this process goes first.
void VolunteerForOutOfMemory() { std::ofstream("/proc/self/oom_score_adj") << "1000"; }

// Folders of the libraries loaded into this process, and for NVRTC the toolkit around it: its
// builtins and headers lie beside it, wherever that is.
std::set<std::string> LoadedLibraryDirs() {
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
  return dirs;
}

// The files of NVIDIA's driver: "nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-caps/...".
std::vector<std::string> DeviceFiles() {
  std::vector<std::string> files = {"/dev/null"};
  std::error_code error;
  for (std::filesystem::directory_iterator it("/dev", error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename();
    if (absl::StartsWith(name, "nvidia")) files.push_back(it->path());
  }
  return files;
}

WallLimits LimitsOf(WorkerRole role) {
  switch (role) {
    case WorkerRole::kLibraryCompiler:
    case WorkerRole::kProgramCompiler:
    case WorkerRole::kInterpreter:
      return {.address_space_bytes = kCompilerBytes, .file_bytes = kFileBytes, .open_files = 128};
    case WorkerRole::kHostDevice:
      return {.address_space_bytes = std::max(MemoryBytes() / 4 * 3, kCompilerBytes),
              .file_bytes = kFileBytes,
              .open_files = 64};
    case WorkerRole::kAccelerator:
    case WorkerRole::kCounter:
    case WorkerRole::kUnwalled:
      break;
  }
  return {.file_bytes = kDriverFileBytes, .open_files = 4096};
}

}  // namespace

Walls::Walls(WorkerRole role, std::string scratch_dir)
    : role_(role), scratch_dir_(std::move(scratch_dir)), limits_(LimitsOf(role)) {}

void Walls::Note(const std::string& what) {
  absl::StrAppend(&missing_, missing_.empty() ? "" : "; ", what);
}

std::vector<std::string> Walls::ReadablePaths() const {
  // The store, its keys and home folders are not on this list.
  std::vector<std::string> paths = {
      "/usr", "/lib", "/lib64", "/bin", "/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime",
      "/sys/devices/system/cpu", "/proc/cpuinfo", "/proc/meminfo",
      // The folder has its memory and pipes, and the host's
      // connections and mounts.
      "/proc/self/maps", "/proc/self/status", "/proc/self/statm", "/dev/urandom"};
  if (IsAccelerator(role_)) {
    paths.insert(paths.end(), {"/etc/nvidia", "/proc/devices", "/proc/driver", "/proc/self",
                               "/proc/sys/kernel/osrelease", "/proc/sys/vm/mmap_min_addr",
                               "/sys/bus/pci", "/sys/devices"});
  }
  const std::set<std::string> libraries = LoadedLibraryDirs();
  paths.insert(paths.end(), libraries.begin(), libraries.end());
  paths.insert(paths.end(), files_.readable.begin(), files_.readable.end());
  return paths;
}

void Walls::Admit(const CompilerFiles& files) {
  files_.readable.insert(files_.readable.end(), files.readable.begin(), files.readable.end());
  files_.programs.insert(files_.programs.end(), files.programs.begin(), files.programs.end());
}

void Walls::EncloseProcess() {
  if (role_ == WorkerRole::kUnwalled) {
    missing_ = "it has none";
    return;
  }
  const auto note = [this](const char* what) {
    Note(absl::StrCat(what, " (", strerror(errno), ")"));
  };
  // The daemon starts workers from a thread that lives as long as it does.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) note("it would outlive the daemon");
  VolunteerForOutOfMemory();
  if (!DisableCoreFiles()) note("core files could not be turned off");
  if (!kSanitized && !SetLimit(RLIMIT_AS, limits_.address_space_bytes)) note("no limit on memory");
  if (!SetLimit(RLIMIT_FSIZE, limits_.file_bytes)) note("no limit on the size of files");
  if (!SetLimit(RLIMIT_NOFILE, limits_.open_files)) note("no limit on open files");
  // Nobody of the same user traces it or opens its memory and pipes.
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) note("others of its user could trace it");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) note("new privileges are not ruled out");

  FileRules rules = {.readable = ReadablePaths(), .writable = {}, .devices = {"/dev/null"}};
  if (role_ == WorkerRole::kInterpreter) {
    rules.run_readable = false;
    rules.programs = files_.programs;
  }
  // Code that runs in this process needs no file of its own: a variant is loaded from memory.
  if (role_ != WorkerRole::kHostDevice && !scratch_dir_.empty()) {
    rules.writable.push_back(scratch_dir_);
  }
  if (IsAccelerator(role_)) {
    rules.devices = DeviceFiles();
    const char* cache = getenv("CUDA_CACHE_PATH");
    if (cache != nullptr && *cache != '\0') rules.writable.push_back(cache);
  }
  absl::StatusOr<int> version = RestrictFiles(rules);
  if (version.ok()) {
    landlock_ = *version;
  } else {
    Note(std::string(version.status().message()));
  }
  if (!DropCapabilities(role_)) note("privileges could not be dropped");
}

void Walls::EncloseCalls() {
  if (role_ == WorkerRole::kUnwalled) return;
  const absl::Status filtered = FilterCalls(role_);
  if (!filtered.ok()) Note(std::string(filtered.message()));
}

void LimitCpuSeconds(int64_t seconds) {
  rusage used = {};
  rlimit limit = {};
  if (getrusage(RUSAGE_SELF, &used) != 0 || getrlimit(RLIMIT_CPU, &limit) != 0) return;
  limit.rlim_cur = static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec + seconds + 1);
  setrlimit(RLIMIT_CPU, &limit);
}

}  // namespace tune::server
