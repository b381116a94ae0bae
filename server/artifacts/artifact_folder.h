// SPDX-License-Identifier: Apache-2.0
// The folder of the artifacts of records, beside the snapshots that name them:
// sha256-<hex>.artifact, written once and never changed. Processes of the host read the files
// without a daemon.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"

namespace tune::server {

// Thread-safe.
class ArtifactFolder {
 public:
  enum class Use { kWrite, kRead };

  // Opens the folder in that of the snapshots. A writer makes it; for a reader it may be absent.
  static absl::StatusOr<std::unique_ptr<ArtifactFolder>> Open(const std::string& snapshot_dir,
                                                              Use use, int64_t bytes_max);

  // Stores an artifact and returns its digest. Durable when it returns. If all would have more than
  // `bytes_max`, artifacts that no snapshot of the folder names are deleted, the oldest first.
  // RESOURCE_EXHAUSTED: there is no room, on the disk or within the bound.
  absl::StatusOr<std::string> Put(absl::string_view text);

  // The sum of the sizes of those files that exist.
  int64_t BytesOf(const std::vector<std::string>& digests) const;
  int64_t bytes_max() const { return bytes_max_; }

  struct Piece {
    std::string bytes;         // empty at the end
    uint64_t whole_bytes = 0;  // of the file
  };
  // Returns a piece from an offset on. Checks the whole file's digest before it returns the first
  // piece, and deletes a file that does not match. NOT_FOUND: no such file. INVALID_ARGUMENT: a
  // malformed digest.
  absl::StatusOr<Piece> Read(const std::string& digest, uint64_t offset, size_t most) const;

  const std::string& path() const { return path_; }

 private:
  ArtifactFolder(std::string snapshot_dir, Use use, int64_t bytes_max);
  std::string FileOf(absl::string_view digest) const;
  absl::Status MakeRoom(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Names of the artifacts that snapshots of the folder name.
  std::set<std::string> Named() const;

  const std::string snapshot_dir_;
  const std::string path_;
  const Use use_;
  const int64_t bytes_max_;
  Mutex mutex_;  // one writer at a time
};

}  // namespace tune::server
