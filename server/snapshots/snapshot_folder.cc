// SPDX-License-Identifier: Apache-2.0
#include "server/snapshots/snapshot_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "server/state/paths.h"
#include "server/state/whole_file.h"

namespace tune::server {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kFilePrefix = "sha256-";
constexpr absl::string_view kJson = ".json";
constexpr absl::string_view kPin = ".pin";
constexpr char kLatest[] = "latest";
constexpr size_t kPrefixDigitsMin = 6;
constexpr size_t kHeaderBytesMax = 1024;
// Users who may enter the folder may read the files: the folder's mode guards them.
constexpr mode_t kFolderMode = 0750;
constexpr mode_t kFileMode = 0644;

bool IsHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
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
  if (is_new && chmod(path.c_str(), kFolderMode) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("chmod ", path));
  }
  for (const auto& entry : fs::directory_iterator(path, error)) {
    std::error_code ignored;
    const bool left = absl::StartsWith(entry.path().filename().string(), kUnfinished);
    if (left) fs::remove(entry.path(), ignored);
  }
  return folder;
}

std::string SnapshotFolder::FileOf(const std::string& digest, absl::string_view suffix) const {
  return absl::StrCat(path_, "/", FileNameOf(digest, suffix));
}

absl::Status SnapshotFolder::CheckWritable() const {
  if (writable()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the snapshots in ", path_,
                                                    " are only read here: another process has the "
                                                    "state folder"));
}

absl::StatusOr<std::string> SnapshotFolder::Put(absl::string_view text) {
  RETURN_IF_ERROR(CheckWritable());
  const std::string digest = DigestOf(text);
  const std::string path = FileOf(digest, kJson);
  struct stat info = {};
  const bool there = stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
                     static_cast<size_t>(info.st_size) == text.size();
  if (!there) RETURN_IF_ERROR(WriteWhole(path, text, kFileMode));
  return digest;
}

absl::StatusOr<std::string> SnapshotFolder::PutNewest(absl::string_view text) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const std::string digest, Put(text));
  RETURN_IF_ERROR(WriteWhole(absl::StrCat(path_, "/", kLatest), digest + "\n", kFileMode));
  PruneLocked(kept_);
  return digest;
}

absl::StatusOr<StoredSnapshot> SnapshotFolder::PutPinned(absl::string_view text,
                                                         const std::string& note) {
  std::string digest;
  std::string kept;  // the note of a pin that is there already
  {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(digest, Put(text));
    for (const StoredSnapshot& snapshot : ListLocked()) {
      if (snapshot.digest == digest) kept = snapshot.note.value_or("");
    }
  }
  if (!note.empty()) return Pin(digest, note);
  return Pin(digest, kept.empty() ? "imported" : kept);
}

std::vector<StoredSnapshot> SnapshotFolder::List() const {
  MutexLock lock(mutex_);
  return ListLocked();
}

std::vector<StoredSnapshot> SnapshotFolder::ListLocked() const {
  const std::string latest =
      ReadPiece(absl::StrCat(path_, "/", kLatest), kHeaderBytesMax).value_or("");
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
      const std::string start = ReadPiece(it->path().string(), kHeaderBytesMax).value_or("");
      const absl::StatusOr<SnapshotHeader> header =
          ParseSnapshotHeader(absl::string_view(start).substr(0, start.find('\n')));
      if (!header.ok()) continue;  // not ours
      known = headers_.emplace(snapshot.digest, *header).first;
    }
    std::error_code gone;
    snapshot.header = known->second;
    snapshot.bytes = it->file_size(gone);
    snapshot.newest = absl::StartsWith(latest, snapshot.digest);
    snapshot.note = ReadPiece(FileOf(snapshot.digest, kPin), kPinNoteBytesMax);
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
  std::optional<std::string> bytes = ReadPiece(FileOf(digest, kJson), most, offset);
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
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(WriteWhole(FileOf(digest, kPin), note, kFileMode));
  }
  return Find(digest);
}

absl::StatusOr<StoredSnapshot> SnapshotFolder::Unpin(const std::string& digest) {
  RETURN_IF_ERROR(CheckWritable());
  {
    MutexLock lock(mutex_);
    const std::string path = FileOf(digest, kPin);
    if (unlink(path.c_str()) != 0 && errno != ENOENT) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot remove ", path));
    }
  }
  return Find(digest);
}

absl::StatusOr<std::vector<StoredSnapshot>> SnapshotFolder::Prune(uint32_t keep) {
  RETURN_IF_ERROR(CheckWritable());
  MutexLock lock(mutex_);
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
