// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/process_tree.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tune::server {
namespace {

namespace fs = std::filesystem;

// The kernel lists children by the thread that started them.
void AppendChildren(pid_t pid, std::vector<pid_t>& processes, int processes_max) {
  std::error_code error;
  for (fs::directory_iterator it(absl::StrCat("/proc/", pid, "/task"), error), end;
       !error && it != end; it.increment(error)) {
    std::ifstream children(it->path() / "children");
    for (pid_t child = 0; children >> child;) {
      if (static_cast<int>(processes.size()) >= processes_max) return;
      processes.push_back(child);
    }
  }
}

// Lines as "VmRSS:     1234 kB".
TreeUse UseOfProcess(pid_t pid) {
  TreeUse use{.processes = 1};
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const absl::string_view name = absl::string_view(line).substr(0, colon);
    const int64_t value = std::strtoll(line.c_str() + colon + 1, nullptr, 10);
    if (name == "Threads") use.threads = static_cast<int>(value);
    if (name == "VmRSS" || name == "VmPTE" || name == "VmSwap" || name == "HugetlbPages") {
      use.resident_bytes += value * 1024;
    }
  }
  return use;
}

}  // namespace

int64_t ResidentBytesOf(pid_t pid) { return UseOfProcess(pid).resident_bytes; }

TreeUse UseOfTree(pid_t root, int processes_max) {
  TreeUse use;
  std::vector<pid_t> processes = {root};
  for (size_t i = 0; i < processes.size(); ++i) {
    const TreeUse own = UseOfProcess(processes[i]);
    use.resident_bytes += own.resident_bytes;
    use.threads += own.threads;
    AppendChildren(processes[i], processes, processes_max);
  }
  use.processes = static_cast<int>(processes.size());
  return use;
}

int64_t BytesUnder(const std::string& folder, int entries_max) {
  int64_t bytes = 0;
  int entries = 0;
  std::error_code error;
  // Links are not followed.
  std::vector<fs::path> folders = {folder};
  while (!folders.empty()) {
    const fs::path here = std::move(folders.back());
    folders.pop_back();
    fs::directory_iterator it(here, error);
    // Folders come and go. One that cannot be looked into may hold anything.
    if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) {
      continue;
    }
    for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
      if (++entries > entries_max) return std::numeric_limits<int64_t>::max();
      struct stat about = {};
      if (lstat(it->path().c_str(), &about) != 0) continue;
      bytes += int64_t{about.st_blocks} * 512;
      if (S_ISDIR(about.st_mode)) folders.push_back(it->path());
    }
    if (error) return std::numeric_limits<int64_t>::max();
  }
  return bytes;
}

}  // namespace tune::server
