// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/node_folder.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/descriptor.h"
#include "base/status_macros.h"

namespace tune::library {
namespace {

constexpr mode_t kOthersMayWrite = 022;
constexpr size_t kUserBytesMax = 16 << 10;  // of an entry of the user database

constexpr double kDaySeconds = 86400;

// "NAME.PID.NUMBER": written, and not yet renamed.
bool IsUnfinished(absl::string_view name) {
  for (int part = 0; part < 2; ++part) {
    const size_t size = name.size();
    while (!name.empty() && absl::ascii_isdigit(name.back())) name.remove_suffix(1);
    if (name.size() == size || !absl::ConsumeSuffix(&name, ".")) return false;
  }
  return true;
}

absl::Status FileError(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::string> ReadRegularFile(const std::string& path, size_t bytes_max) {
  Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info = {};
  if (!fd.ok() || fstat(fd.get(), &info) != 0) return FileError(path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is no regular file"));
  }
  if (static_cast<size_t>(info.st_size) > bytes_max) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has more than ", bytes_max, " bytes"));
  }
  std::string data(static_cast<size_t>(info.st_size), '\0');
  size_t have = 0;
  while (have < data.size()) {
    const ssize_t count = read(fd.get(), data.data() + have, data.size() - have);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError(path);
    if (count == 0) break;  // cut meanwhile: what is read is checked by whoever reads it
    have += static_cast<size_t>(count);
  }
  data.resize(have);
  return data;
}

absl::StatusOr<std::set<uint32_t>> TrustedUsers(const Environment& environment) {
  std::set<uint32_t> users = {geteuid(), 0};
  const std::string name = environment.Variable("TUNE_DAEMON_USER");
  uint32_t uid = 0;
  if (name.empty()) return users;
  if (!absl::SimpleAtoi(name, &uid)) {
    std::vector<char> buffer(kUserBytesMax);
    passwd entry = {};
    passwd* found = nullptr;
    getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (found == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("TUNE_DAEMON_USER: there is no user '", name, "'"));
    }
    uid = found->pw_uid;
  }
  users.insert(uid);
  return users;
}

absl::Status CheckOwner(const std::string& path, const Environment& environment) {
  ASSIGN_OR_RETURN(const std::set<uint32_t> trusted, TrustedUsers(environment));
  const std::string folder = std::filesystem::path(path).parent_path();
  for (const std::string& place : {folder.empty() ? "." : folder, path}) {
    struct stat info = {};
    if (stat(place.c_str(), &info) != 0) return FileError(place);
    if (!trusted.contains(info.st_uid) || (info.st_mode & kOthersMayWrite) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("others may write ", place,
                       ", so its code is not run; TUNE_DAEMON_USER names a user to trust"));
    }
  }
  return absl::OkStatus();
}

bool NodeFolder::IsOurs() const {
  struct stat info = {};
  return !path_.empty() && stat(path_.c_str(), &info) == 0 &&
         (info.st_uid == geteuid() || info.st_uid == 0) && (info.st_mode & kOthersMayWrite) == 0;
}

absl::StatusOr<std::string> NodeFolder::Read(const std::string& name, size_t bytes_max) const {
  if (!IsOurs()) return absl::InvalidArgumentError("there is no cache of our own");
  return ReadRegularFile(absl::StrCat(path_, "/", name), bytes_max);
}

double NodeFolder::Age(const std::string& name) const {
  struct stat info = {};
  if (stat(absl::StrCat(path_, "/", name).c_str(), &info) != 0) {
    return std::numeric_limits<double>::infinity();
  }
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return std::difftime(now.tv_sec, info.st_mtim.tv_sec) +
         static_cast<double>(now.tv_nsec - info.st_mtim.tv_nsec) / 1e9;
}

void NodeFolder::Prune(const std::string& kept) const {
  std::vector<std::pair<double, std::string>> files;  // by their ages
  std::vector<std::string> old;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    const double age = Age(name);
    if (IsUnfinished(name) && age >= kDaySeconds) old.push_back(name);
    if (!IsUnfinished(name) && absl::StartsWith(name, "sha256-")) files.emplace_back(age, name);
  }
  std::sort(files.begin(), files.end());
  for (size_t i = files_max_; i < files.size(); ++i) {
    if (files[i].first >= kDaySeconds) old.push_back(files[i].second);
  }
  for (const std::string& name : old) {
    if (name != kept) unlink(absl::StrCat(path_, "/", name).c_str());
  }
}

bool NodeFolder::Keep(const std::string& name, absl::string_view data) const {
  static std::atomic<int> number = 0;
  if (path_.empty()) return false;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  mkdir(path_.c_str(), 0700);
  if (!IsOurs()) return false;
  const std::string path = absl::StrCat(path_, "/", name);
  const std::string fresh = absl::StrCat(path, ".", getpid(), ".", number++);
  Descriptor fd(open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd.ok() && WriteAll(fd.get(), data) && std::rename(fresh.c_str(), path.c_str()) == 0) {
    Prune(name);
    return true;
  }
  unlink(fresh.c_str());
  return false;
}

}  // namespace tune::library
