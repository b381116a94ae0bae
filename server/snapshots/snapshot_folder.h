// SPDX-License-Identifier: Apache-2.0
// The folder of snapshots: sha256-<hex>.json, written once and never changed; beside it
// sha256-<hex>.pin if it is pinned, with a note; and `latest`, the digest of the newest. Processes
// of the host read the files without a daemon.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "server/snapshots/snapshot_text.h"

namespace tune::server {

inline constexpr size_t kSnapshotBytesMax = size_t{256} << 20;
inline constexpr size_t kImportBytesMax = size_t{64} << 20;
inline constexpr size_t kPinNoteBytesMax = 200;

struct StoredSnapshot {
  std::string digest;  // "sha256:<hex>"
  SnapshotHeader header;
  uint64_t bytes = 0;
  bool newest = false;
  std::optional<std::string> note;  // of the pin; nothing: not pinned
};

// Thread-safe. Errors as of Store: RESOURCE_EXHAUSTED (the disk is full), UNAVAILABLE, NOT_FOUND.
class SnapshotFolder {
 public:
  enum class Use { kWrite, kRead };

  // Opens a folder. A writer makes it, readable by its owner and group, and keeps `kept` snapshots
  // besides those that are pinned. For a reader it may be absent.
  static absl::StatusOr<std::unique_ptr<SnapshotFolder>> Open(const std::string& path, Use use,
                                                              uint32_t kept);

  // Stores the newest snapshot and returns its digest. Durable when it returns; then removes the
  // oldest beyond `kept`.
  absl::StatusOr<std::string> PutNewest(absl::string_view text);
  // Stores and pins a snapshot from elsewhere. Without a note the pin keeps its note, or gets
  // "imported". REQUIRES: CheckSnapshotText.
  absl::StatusOr<StoredSnapshot> PutPinned(absl::string_view text, const std::string& note);

  // Newest first.
  std::vector<StoredSnapshot> List() const;
  // Finds a snapshot by its digest, the first 6 or more digits of it, a number, or "" for the
  // newest.
  absl::StatusOr<StoredSnapshot> Find(const std::string& snapshot) const;
  // Bytes of a file from an offset on; empty at the end.
  absl::StatusOr<std::string> Read(const std::string& digest, uint64_t offset, size_t most) const;

  absl::StatusOr<StoredSnapshot> Pin(const std::string& digest, const std::string& note);
  absl::StatusOr<StoredSnapshot> Unpin(const std::string& digest);
  // Removes all snapshots but those that are pinned and the newest `keep`. Returns those removed.
  absl::StatusOr<std::vector<StoredSnapshot>> Prune(uint32_t keep);

  const std::string& path() const { return path_; }
  bool writable() const { return use_ == Use::kWrite; }
  uint32_t kept() const { return kept_; }

 private:
  SnapshotFolder(std::string path, Use use, uint32_t kept)
      : path_(std::move(path)), use_(use), kept_(kept) {}

  absl::StatusOr<std::string> Put(absl::string_view text);
  absl::Status CheckWritable() const;
  std::vector<StoredSnapshot> ListLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<StoredSnapshot> PruneLocked(uint32_t keep) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string FileOf(const std::string& digest, absl::string_view suffix) const;

  const std::string path_;
  const Use use_;
  const uint32_t kept_;
  mutable Mutex mutex_;
  // Headers of files that were read before, by digest.
  mutable std::map<std::string, SnapshotHeader> headers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tune::server
