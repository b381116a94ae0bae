// SPDX-License-Identifier: Apache-2.0
#include "server/snapshots/snapshot_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/descriptor.h"
#include "server/state/paths.h"
#include "tuner/sha256.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kDigestPrefix = "sha256:";
constexpr absl::string_view kFilePrefix = "sha256-";
constexpr absl::string_view kJson = ".json";
constexpr absl::string_view kPin = ".pin";
constexpr char kLatest[] = "latest";
constexpr absl::string_view kUnfinished = ".writing-";
constexpr size_t kHexDigits = 64;
constexpr size_t kPrefixDigitsMin = 6;
constexpr size_t kHeaderBytesMax = 1024;
// Whoever may enter the folder may read: its mode is what guards the files.
constexpr mode_t kFolderMode = 0750;
constexpr mode_t kFileMode = 0644;

absl::Status Failed(const std::string& what, const std::string& path, int error) {
  const std::string message = absl::StrCat(what, " ", path, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(message);
  if (error == EROFS || error == EACCES || error == EPERM) {
    return absl::PermissionDeniedError(message);
  }
  return absl::UnavailableError(message);
}

bool IsHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
}

bool IsDigest(absl::string_view digest) {
  return absl::ConsumePrefix(&digest, kDigestPrefix) && digest.size() == kHexDigits &&
         IsHex(digest);
}

// Up to `most` bytes; nothing if it cannot be read.
std::optional<std::string> ReadStart(const std::string& path, size_t most, uint64_t offset = 0) {
  client::Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info = {};
  if (!fd.ok() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  std::string bytes(most, '\0');
  size_t at = 0;
  while (at < most) {
    const ssize_t got = pread(fd.get(), bytes.data() + at, most - at,
                              static_cast<off_t>(offset + at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    at += static_cast<size_t>(got);
  }
  bytes.resize(at);
  return bytes;
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

absl::StatusOr<std::unique_ptr<SnapshotFolder>> SnapshotFolder::Open(const std::string& path,
                                                                     Use use, uint32_t kept) {
  std::unique_ptr<SnapshotFolder> folder(new SnapshotFolder(path, use, kept));
  if (use == Use::kRead) return folder;
  std::error_code error;
  const bool is_new = !fs::exists(path, error);
  RETURN_IF_ERROR(MakePrivateDir(path));
  // An operator may have opened it further, or closed it.
  if (is_new && chmod(path.c_str(), kFolderMode) != 0) return Failed("chmod", path, errno);
  for (const auto& entry : fs::directory_iterator(path, error)) {
    std::error_code ignored;
    const bool left = absl::StartsWith(entry.path().filename().string(), kUnfinished);
    if (left) fs::remove(entry.path(), ignored);
  }
  return folder;
}

std::string SnapshotFolder::FileOf(const std::string& digest, absl::string_view suffix) const {
  return absl::StrCat(path_, "/", kFilePrefix, digest.substr(kDigestPrefix.size()), suffix);
}

absl::Status SnapshotFolder::CheckWritable() const {
  if (writable()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the snapshots in ", path_, " are only read here: another process has the "
                   "state folder"));
}

// The old file or the new one is there at any time, whole.
absl::Status SnapshotFolder::WriteFile(const std::string& path, absl::string_view text) const {
  const std::string fresh = absl::StrCat(path_, "/", kUnfinished, getpid());
  client::Descriptor fd(
      open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kFileMode));
  if (!fd.ok()) return Failed("cannot create", fresh, errno);
  int error = fchmod(fd.get(), kFileMode) == 0 ? 0 : errno;  // whatever the umask
  if (error == 0) error = WriteAll(fd.get(), text);
  if (error == 0 && fsync(fd.get()) != 0) error = errno;
  if (error == 0 && rename(fresh.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  (void)unlink(fresh.c_str());
  return Failed("cannot write", path, error);
}

absl::StatusOr<std::string> SnapshotFolder::Put(absl::string_view text) {
  RETURN_IF_ERROR(CheckWritable());
  const std::string digest = absl::StrCat(kDigestPrefix, Sha256Hex(text));
  const std::string path = FileOf(digest, kJson);
  struct stat info = {};
  const bool there = stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
                     static_cast<size_t>(info.st_size) == text.size();
  if (!there) RETURN_IF_ERROR(WriteFile(path, text));
  return digest;
}

absl::StatusOr<std::string> SnapshotFolder::PutNewest(absl::string_view text) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(const std::string digest, Put(text));
  RETURN_IF_ERROR(WriteFile(absl::StrCat(path_, "/", kLatest), digest + "\n"));
  PruneLocked(kept_);
  return digest;
}

absl::StatusOr<StoredSnapshot> SnapshotFolder::PutPinned(absl::string_view text,
                                                         const std::string& note) {
  std::string digest;
  {
    std::lock_guard lock(mutex_);
    ASSIGN_OR_RETURN(digest, Put(text));
  }
  return Pin(digest, note);
}

std::vector<StoredSnapshot> SnapshotFolder::List() const {
  std::lock_guard lock(mutex_);
  return ListLocked();
}

std::vector<StoredSnapshot> SnapshotFolder::ListLocked() const {
  const std::string latest =
      ReadStart(absl::StrCat(path_, "/", kLatest), kHeaderBytesMax).value_or("");
  std::vector<StoredSnapshot> snapshots;
  std::error_code error;
  for (fs::directory_iterator it(path_, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    absl::string_view hex = name;
    if (!absl::ConsumePrefix(&hex, kFilePrefix) || !absl::ConsumeSuffix(&hex, kJson)) continue;
    StoredSnapshot snapshot{.digest = absl::StrCat(kDigestPrefix, hex)};
    if (!IsDigest(snapshot.digest)) continue;
    auto known = headers_.find(snapshot.digest);
    if (known == headers_.end()) {
      const std::string start = ReadStart(it->path().string(), kHeaderBytesMax).value_or("");
      const absl::StatusOr<SnapshotHeader> header =
          ParseSnapshotHeader(absl::string_view(start).substr(0, start.find('\n')));
      if (!header.ok()) continue;  // not ours
      known = headers_.emplace(snapshot.digest, *header).first;
    }
    std::error_code gone;
    snapshot.header = known->second;
    snapshot.bytes = it->file_size(gone);
    snapshot.newest = absl::StartsWith(latest, snapshot.digest);
    snapshot.note = ReadStart(FileOf(snapshot.digest, kPin), kPinNoteBytesMax);
    if (!gone) snapshots.push_back(std::move(snapshot));
  }
  std::sort(snapshots.begin(), snapshots.end(), [](const auto& a, const auto& b) {
    return std::tie(a.newest, a.header.number, a.header.published_unix_ms, a.digest) >
           std::tie(b.newest, b.header.number, b.header.published_unix_ms, b.digest);
  });
  return snapshots;
}

absl::StatusOr<StoredSnapshot> SnapshotFolder::Find(const std::string& snapshot) const {
  absl::string_view hex = snapshot;
  const bool is_digest = absl::ConsumePrefix(&hex, kDigestPrefix);
  int64_t number = 0;
  const bool is_number =
      !is_digest && hex.size() < kPrefixDigitsMin && absl::SimpleAtoi(hex, &number);
  const bool is_start = !is_number && hex.size() >= kPrefixDigitsMin && IsHex(hex);
  if (!snapshot.empty() && !is_number && !is_start) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", snapshot, "' is no snapshot: give sha256:<hex>, its first ", kPrefixDigitsMin,
        " digits or more, or a number of at most ", kPrefixDigitsMin - 1, " digits"));
  }
  const std::string start = absl::StrCat(kDigestPrefix, hex);
  std::vector<StoredSnapshot> found = List();
  std::erase_if(found, [&](const StoredSnapshot& one) {
    if (snapshot.empty()) return !one.newest;
    return is_number ? one.header.number != number : !absl::StartsWith(one.digest, start);
  });
  if (found.size() == 1) return found.front();
  if (found.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("'", snapshot, "' means ", found.size(),
                                                   " snapshots; `tunectl snapshot list` tells "
                                                   "them apart"));
  }
  return absl::NotFoundError(
      snapshot.empty() ? absl::StrCat("there is no snapshot yet in ", path_,
                                      ": a sweep or a daemon makes the first")
                       : absl::StrCat("no snapshot '", snapshot, "'; see `tunectl snapshot list`"));
}

absl::StatusOr<std::string> SnapshotFolder::Read(const std::string& digest, uint64_t offset,
                                                 size_t most) const {
  std::optional<std::string> bytes = ReadStart(FileOf(digest, kJson), most, offset);
  if (!bytes) return absl::NotFoundError(absl::StrCat("snapshot ", digest, " has gone"));
  return *std::move(bytes);
}

absl::StatusOr<StoredSnapshot> SnapshotFolder::Pin(const std::string& digest,
                                                   const std::string& note) {
  RETURN_IF_ERROR(CheckWritable());
  if (note.size() > kPinNoteBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the note has ", note.size(), " bytes; at most ", kPinNoteBytesMax));
  }
  {
    std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(WriteFile(FileOf(digest, kPin), note));
  }
  return Find(digest);
}

absl::StatusOr<StoredSnapshot> SnapshotFolder::Unpin(const std::string& digest) {
  RETURN_IF_ERROR(CheckWritable());
  {
    std::lock_guard lock(mutex_);
    const std::string path = FileOf(digest, kPin);
    if (unlink(path.c_str()) != 0 && errno != ENOENT) return Failed("cannot remove", path, errno);
  }
  return Find(digest);
}

absl::StatusOr<std::vector<StoredSnapshot>> SnapshotFolder::Prune(uint32_t keep) {
  RETURN_IF_ERROR(CheckWritable());
  std::lock_guard lock(mutex_);
  return PruneLocked(keep);
}

std::vector<StoredSnapshot> SnapshotFolder::PruneLocked(uint32_t keep) {
  std::vector<StoredSnapshot> removed;
  uint32_t kept = 0;
  for (const StoredSnapshot& snapshot : ListLocked()) {
    if (snapshot.note.has_value()) continue;
    if (kept++ < std::max(keep, 1u)) continue;
    if (unlink(FileOf(snapshot.digest, kJson).c_str()) != 0) continue;
    headers_.erase(snapshot.digest);
    removed.push_back(snapshot);
  }
  return removed;
}

}  // namespace tune::server
