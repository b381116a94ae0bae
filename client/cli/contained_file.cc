// SPDX-License-Identifier: Apache-2.0
#include "client/cli/contained_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/descriptor.h"

namespace tune::client {
namespace {

constexpr int kTriesMax = 16;  // openat2 gives up when somebody renames folders meanwhile

// The fallback for kernels older than 5.6 and sandboxes without openat2: follows no link at all.
Descriptor OpenWithoutLinks(int folder, const std::string& name) {
  Descriptor at(fcntl(folder, F_DUPFD_CLOEXEC, 0));
  for (const absl::string_view part : absl::StrSplit(name, '/', absl::SkipEmpty())) {
    if (part == "..") {
      errno = EXDEV;
      return Descriptor();
    }
    Descriptor next(openat(at.get(), std::string(part).c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info;
    if (!next.ok() || fstat(next.get(), &info) != 0) return Descriptor();
    if (S_ISLNK(info.st_mode)) {
      errno = EXDEV;
      return Descriptor();
    }
    at = std::move(next);
  }
  return at;
}

// A handle that reads nothing and wakes no device.
Descriptor OpenBeneath(int folder, const std::string& name) {
  open_how how = {};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  for (int i = 0; i < kTriesMax; ++i) {
    Descriptor file(
        static_cast<int>(syscall(SYS_openat2, folder, name.c_str(), &how, sizeof(how))));
    if (file.ok()) return file;
    if (errno == ENOSYS || errno == EPERM) return OpenWithoutLinks(folder, name);
    if (errno != EAGAIN && errno != EINTR) break;
  }
  return Descriptor();
}

Descriptor OpenFolder(const std::string& folder) {
  return Descriptor(open(folder.empty() ? "." : folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

absl::Status CannotRead(const std::string& path, int error) {
  if (error == EXDEV) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path,
                     "' leads out of its folder by a symbolic link or '..', and is not read: copy "
                     "what it leads to into the folder"));
  }
  const std::string message = absl::StrCat("cannot read '", path, "': ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  return absl::InvalidArgumentError(message);
}

const char* KindText(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

absl::StatusOr<std::string> ReadAtMost(int file, const std::string& path, size_t bytes_max) {
  std::string text;
  char buffer[1 << 16];
  while (text.size() <= bytes_max) {
    const size_t want = std::min(sizeof(buffer), bytes_max + 1 - text.size());
    const ssize_t count = read(file, buffer, want);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return CannotRead(path, errno);
    if (count == 0) return text;
    text.append(buffer, static_cast<size_t>(count));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", path, "' has more than the ", bytes_max,
                   " bytes that are left for it; a kernel's files have at most 1 MiB in all"));
}

}  // namespace

absl::StatusOr<std::string> ReadContained(const std::string& folder, const std::string& name,
                                          size_t bytes_max) {
  const std::string path = (std::filesystem::path(folder) / name).string();
  const Descriptor at = OpenFolder(folder);
  if (!at.ok()) return CannotRead(path, errno);
  const Descriptor found = OpenBeneath(at.get(), name);
  struct stat info;
  if (!found.ok() || fstat(found.get(), &info) != 0) return CannotRead(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is ", KindText(info.st_mode), ", not a file"));
  }
  const Descriptor file(open(absl::StrCat("/proc/self/fd/", found.get()).c_str(),
                             O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file.ok()) return CannotRead(path, errno);
  return ReadAtMost(file.get(), path, bytes_max);
}

absl::StatusOr<bool> HasFolder(const std::string& folder, const std::string& inner) {
  const Descriptor at = OpenFolder(folder);
  if (!at.ok()) return CannotRead(folder, errno);
  const Descriptor found = OpenBeneath(at.get(), inner);
  if (!found.ok() && errno == EXDEV) {
    return CannotRead((std::filesystem::path(folder) / inner).string(), errno);
  }
  struct stat info;
  return found.ok() && fstat(found.get(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace tune::client
