// SPDX-License-Identifier: Apache-2.0
#include "server/state/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/descriptor.h"
#include "base/sha256.h"
#include "server/state/folder_sync.h"

namespace tune::server {
namespace {

constexpr absl::string_view kFilePrefix = "sha256-";
constexpr size_t kHexDigits = 64;

absl::Status Failed(const std::string& what, const std::string& path, int error) {
  const std::string message = absl::StrCat(what, " ", path, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(message);
  if (error == EROFS || error == EACCES || error == EPERM) {
    return absl::PermissionDeniedError(message);
  }
  return absl::UnavailableError(message);
}

int WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace

bool IsDigest(absl::string_view digest) {
  return absl::ConsumePrefix(&digest, kDigestPrefix) && digest.size() == kHexDigits &&
         std::all_of(digest.begin(), digest.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string DigestOf(absl::string_view bytes) {
  return absl::StrCat(kDigestPrefix, Sha256Hex(bytes));
}

std::string FileNameOf(absl::string_view digest, absl::string_view suffix) {
  return absl::StrCat(kFilePrefix, absl::StripPrefix(digest, kDigestPrefix), suffix);
}

absl::Status WriteWhole(const std::string& path, absl::string_view bytes, mode_t mode) {
  static std::atomic<uint64_t> serial{0};
  const std::string fresh = absl::StrCat(std::filesystem::path(path).parent_path().string(), "/",
                                         kUnfinished, getpid(), "-", ++serial);
  Descriptor fd(open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd.ok()) return Failed("cannot create", fresh, errno);
  int error = fchmod(fd.get(), mode) == 0 ? 0 : errno;
  if (error == 0) error = WriteAll(fd.get(), bytes);
  if (error == 0 && fsync(fd.get()) != 0) error = errno;
  if (error == 0 && rename(fresh.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) {
    error = SyncFolderOf(path);
    return error == 0 ? absl::OkStatus() : Failed("cannot sync the folder of", path, error);
  }
  (void)unlink(fresh.c_str());
  return Failed("cannot write", path, error);
}

std::optional<std::string> ReadPiece(const std::string& path, size_t most, uint64_t offset) {
  Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info = {};
  if (!fd.ok() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  const auto size = static_cast<uint64_t>(info.st_size);
  std::string bytes(std::min<uint64_t>(most, size - std::min(size, offset)), '\0');
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t got =
        pread(fd.get(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(offset + at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    at += static_cast<size_t>(got);
  }
  bytes.resize(at);
  return bytes;
}

}  // namespace tune::server
