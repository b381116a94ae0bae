// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/control_groups.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace tune::server {
namespace {

namespace fs = std::filesystem;

constexpr char kDaemonGroup[] = "tune-daemon";
constexpr char kWorkerGroup[] = "tune-worker-";
constexpr char kLimits[] = "memory and pids";
constexpr int kRemovalTries = 500;
constexpr std::chrono::milliseconds kRemovalPause(1);

absl::Status Failed(absl::string_view what, const std::string& path) {
  return absl::UnavailableError(absl::StrCat(what, " ", path, ": ", strerror(errno)));
}

// The kernel reads a file of a group as one write.
absl::Status WriteTo(const std::string& path, const std::string& text) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!file.ok() || write(file.get(), text.data(), text.size()) < 0) {
    return Failed("cannot write to", path);
  }
  return absl::OkStatus();
}

std::set<std::string> WordsIn(const std::string& path) {
  std::set<std::string> words;
  std::ifstream file(path);
  for (std::string word; file >> word;) words.insert(word);
  return words;
}

// The value of a line such as "oom 3", 0 without one.
int64_t CountIn(const std::string& path, absl::string_view name) {
  std::ifstream file(path);
  std::string word;
  int64_t count = 0;
  while (file >> word >> count) {
    if (word == name) return count;
  }
  return 0;
}

void KillAll(const std::string& folder) {
  const std::string kill = folder + "/cgroup.kill";  // from Linux 5.14 on
  if (access(kill.c_str(), W_OK) == 0) WriteTo(kill, "1").IgnoreError();
}

// The kernel removes a group once its last process has ended, which killed ones do soon.
void KillAndRemove(const std::string& folder) {
  KillAll(folder);
  for (int i = 0; i < kRemovalTries; ++i) {
    if (rmdir(folder.c_str()) == 0 || errno != EBUSY) return;
    std::this_thread::sleep_for(kRemovalPause);
  }
}

// This process's group, from its line "0::/group"; empty if the host has no such line.
std::string OwnGroup(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    absl::string_view group = line;
    if (absl::ConsumePrefix(&group, "0::")) return std::string(group);
  }
  return "";
}

bool HasMark(const std::string& folder, const char* name) {
  char value = 0;
  return getxattr(folder.c_str(), name, &value, 1) == 1 && value == '1';
}

// A container sees its own group as the root. systemd marks a unit's group, and gives it to the
// unit's user.
bool IsDelegated(const std::string& group, const std::string& folder) {
  if (group == "/") return true;
  if (HasMark(folder, "user.delegate") || HasMark(folder, "trusted.delegate")) return true;
  struct stat own = {}, above = {};
  return geteuid() != 0 && stat(folder.c_str(), &own) == 0 && own.st_uid == geteuid() &&
         stat((folder + "/..").c_str(), &above) == 0 && above.st_uid != geteuid();
}

absl::Status CheckOwn(const std::string& group, const std::string& folder) {
  const std::set<std::string> controllers = WordsIn(folder + "/cgroup.controllers");
  if (!controllers.contains("memory") || !controllers.contains("pids")) {
    return absl::UnavailableError(
        absl::StrCat("the control group ", folder, " has no limits of ", kLimits));
  }
  if (!IsDelegated(group, folder)) {
    return absl::UnavailableError(
        absl::StrCat("the control group ", folder, " is not delegated to this process"));
  }
  for (const char* processes : {"/cgroup.procs", "/tune-daemon/cgroup.procs"}) {
    for (const std::string& process : WordsIn(folder + processes)) {
      if (process == absl::StrCat(getpid())) continue;
      return absl::UnavailableError(
          absl::StrCat("the control group ", folder, " holds other processes, such as ", process));
    }
  }
  return absl::OkStatus();
}

}  // namespace

ControlGroup::~ControlGroup() { KillAndRemove(folder_); }

absl::StatusOr<Descriptor> ControlGroup::Entry() const {
  const std::string path = folder_ + "/cgroup.procs";
  Descriptor entry(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!entry.ok()) return Failed("cannot open", path);
  return entry;
}

absl::Status ControlGroup::LimitMemory(int64_t bytes) {
  return WriteTo(folder_ + "/memory.max", absl::StrCat(bytes));
}

int64_t ControlGroup::MemoryBytes() const {
  int64_t bytes = 0;
  std::ifstream(folder_ + "/memory.current") >> bytes;
  return bytes;
}

bool ControlGroup::HasRunOutOfMemory() const {
  return CountIn(folder_ + "/memory.events", "oom") > 0;
}

void ControlGroup::Kill() { KillAll(folder_); }

absl::StatusOr<std::unique_ptr<ControlGroups>> ControlGroups::Claim(const std::string& root) {
  const std::string group = OwnGroup(root);
  const std::string mount = root + "/sys/fs/cgroup";
  if (group.empty() || !fs::exists(mount + "/cgroup.controllers")) {
    return absl::UnavailableError("the host has no control groups of version 2 in /sys/fs/cgroup");
  }
  const std::string folder = group == "/" ? mount : mount + group;
  RETURN_IF_ERROR(CheckOwn(group, folder));
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (absl::StartsWith(it->path().filename().string(), kWorkerGroup)) KillAndRemove(it->path());
  }
  const std::string leaf = absl::StrCat(folder, "/", kDaemonGroup);
  if (mkdir(leaf.c_str(), 0755) != 0 && errno != EEXIST) return Failed("cannot make", leaf);
  std::unique_ptr<ControlGroups> groups(new ControlGroups(folder));  // moves back on failure
  RETURN_IF_ERROR(WriteTo(leaf + "/cgroup.procs", absl::StrCat(getpid())));
  RETURN_IF_ERROR(WriteTo(folder + "/cgroup.subtree_control", "+memory +pids"));
  return groups;
}

ControlGroups::~ControlGroups() {
  WriteTo(folder_ + "/cgroup.subtree_control", "-memory -pids").IgnoreError();
  WriteTo(folder_ + "/cgroup.procs", absl::StrCat(getpid())).IgnoreError();
  rmdir(absl::StrCat(folder_, "/", kDaemonGroup).c_str());
}

absl::StatusOr<std::unique_ptr<ControlGroup>> ControlGroups::Make(int64_t memory_bytes, int tasks) {
  const std::string folder = absl::StrCat(folder_, "/", kWorkerGroup, ++made_);
  if (mkdir(folder.c_str(), 0755) != 0) return Failed("cannot make", folder);
  std::unique_ptr<ControlGroup> group(new ControlGroup(folder));
  RETURN_IF_ERROR(WriteTo(folder + "/memory.oom.group", "1"));
  // A kernel that does not count swapped pages has no such file.
  WriteTo(folder + "/memory.swap.max", "0").IgnoreError();
  if (memory_bytes > 0) RETURN_IF_ERROR(group->LimitMemory(memory_bytes));
  if (tasks > 0) RETURN_IF_ERROR(WriteTo(folder + "/pids.max", absl::StrCat(tasks)));
  return group;
}

}  // namespace tune::server
