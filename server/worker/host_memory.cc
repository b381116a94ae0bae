// SPDX-License-Identifier: Apache-2.0
#include "server/worker/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tune::server {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// kNoLimit where there is no such file, or it says "max".
int64_t LimitIn(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  int64_t bytes = 0;
  return file >> text && absl::SimpleAtoi(text, &bytes) && bytes > 0 ? bytes : kNoLimit;
}

int64_t HostBytes(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string name;
  int64_t kilobytes = 0;
  if (!(file >> name >> kilobytes) || name != "MemTotal:") return kNoLimit;
  return kilobytes * 1024;
}

// A group's limit holds for the groups in it, so those above count too.
int64_t LimitUpwards(const std::string& mount, std::string group, const std::string& file) {
  int64_t bytes = LimitIn(absl::StrCat(mount, "/", file));
  while (group.size() > 1) {
    bytes = std::min(bytes, LimitIn(absl::StrCat(mount, group, "/", file)));
    group.resize(group.rfind('/'));
  }
  return bytes;
}

int64_t CgroupBytes(const std::string& root) {
  const std::string mount = root + "/sys/fs/cgroup";
  int64_t bytes = kNoLimit;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "0::/group" of version 2; "7:memory:/group" of version 1.
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || parts[2].empty() || parts[2][0] != '/') continue;
    if (parts[1].empty()) bytes = std::min(bytes, LimitUpwards(mount, parts[2], "memory.max"));
    if (parts[1] == "memory") {
      bytes = std::min(bytes, LimitUpwards(mount + "/memory", parts[2], "memory.limit_in_bytes"));
    }
  }
  return bytes;
}

}  // namespace

int64_t UsableMemoryBytes(const std::string& root) {
  const int64_t bytes = std::min(HostBytes(root), CgroupBytes(root));
  return bytes == kNoLimit ? 0 : bytes;
}

int64_t MemoryBytes() {
  const int64_t bytes = UsableMemoryBytes();
  return bytes > 0 ? bytes : int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
}

int CompileWorkersThatFit(int threads, int64_t memory_bytes, int64_t worker_bytes) {
  int64_t fit = threads;
  if (memory_bytes > 0 && worker_bytes > 0) {
    fit = std::min(fit, memory_bytes / 4 * 3 / worker_bytes);
  }
  return static_cast<int>(std::max<int64_t>(1, fit));
}

}  // namespace tune::server
