// SPDX-License-Identifier: Apache-2.0
#include "server/worker/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tune::server {
namespace {

constexpr int kFolder = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// A folder that is open; -1: it cannot be.
class OpenFolder {
 public:
  OpenFolder(int parent, const char* name) : fd_(openat(parent, name, O_RDONLY | kFolder)) {
    if (fd_ < 0 && errno == EACCES) fd_ = OpenAgainst(parent, name);
    if (fd_ >= 0) (void)fchmod(fd_, 0700);  // a worker may not
  }
  ~OpenFolder() {
    if (fd_ >= 0) close(fd_);
  }
  OpenFolder(const OpenFolder&) = delete;
  OpenFolder& operator=(const OpenFolder&) = delete;

  int fd() const { return fd_; }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    DIR* stream = fd_ >= 0 ? fdopendir(openat(fd_, ".", O_RDONLY | kFolder)) : nullptr;
    if (stream == nullptr) return names;
    while (const dirent* entry = readdir(stream)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    closedir(stream);
    return names;
  }

 private:
  // Opens a folder whose mode denies its owner access.
  static int OpenAgainst(int parent, const char* name) {
    const int place = openat(parent, name, O_PATH | kFolder);
    if (place < 0) return -1;
    (void)chmod(absl::StrCat("/proc/self/fd/", place).c_str(), 0700);
    const int folder = openat(place, ".", O_RDONLY | kFolder);
    close(place);
    return folder;
  }

  int fd_;
};

bool Remove(int folder, const std::string& name) {
  return unlinkat(folder, name.c_str(), 0) == 0 ||
         unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0;
}

// Empties what lies below by taking the folders in it up to `top`, so that no depth is too deep.
// How much was removed or taken up.
int64_t Flatten(const OpenFolder& top, const std::string& name, int64_t& moved) {
  const OpenFolder folder(top.fd(), name.c_str());
  int64_t done = 0;
  for (const std::string& below : folder.Names()) {
    if (Remove(folder.fd(), below)) {
      ++done;
      continue;
    }
    const OpenFolder movable(folder.fd(), below.c_str());  // one may not be that is not writable
    const std::string place = absl::StrCat("tune-", getpid(), "-", moved++);
    done += renameat(folder.fd(), below.c_str(), top.fd(), place.c_str()) == 0;
  }
  return done + (Remove(top.fd(), name) ? 1 : 0);
}

}  // namespace

bool EmptyFolder(const std::string& path) {
  const OpenFolder top(AT_FDCWD, path.c_str());
  if (top.fd() < 0) return errno == ENOENT;
  int64_t moved = 0;
  while (true) {
    const std::vector<std::string> names = top.Names();
    if (names.empty()) return true;
    int64_t done = 0;
    for (const std::string& name : names) {
      done += Remove(top.fd(), name) ? 1 : Flatten(top, name, moved);
    }
    if (done == 0) return false;
  }
}

bool RemoveFolder(const std::string& path) {
  return EmptyFolder(path) && (rmdir(path.c_str()) == 0 || errno == ENOENT);
}

}  // namespace tune::server
