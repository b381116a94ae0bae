// SPDX-License-Identifier: Apache-2.0
// The folder of the artifacts of records, beside the snapshots that name them:
// sha256-<hex>.artifact, written once and never changed. Processes of the host read the files
// without a daemon.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tune::server {

// Thread-safe.
class ArtifactFolder {
 public:
  enum class Use { kWrite, kRead };

  // In the folder of the snapshots. To write it makes the folder; to read, it need not be there.
  static absl::StatusOr<std::unique_ptr<ArtifactFolder>> Open(const std::string& snapshot_dir,
                                                              Use use, int64_t bytes_max);

  // Durable when it returns. Where all would have more than `bytes_max`, those that no snapshot of
  // the folder names go first, the oldest first. Returns the digest. RESOURCE_EXHAUSTED: there is
  // no room, on the disk or within the bound.
  absl::StatusOr<std::string> Put(absl::string_view text);

  // The sum of the sizes of those files that exist.
  int64_t BytesOf(const std::vector<std::string>& digests) const;
  int64_t bytes_max() const { return bytes_max_; }

  struct Piece {
    std::string bytes;         // empty at the end
    uint64_t whole_bytes = 0;  // of the file
  };
  // From an offset on. The first piece is given out only if the file is what its name says; one
  // that is not goes. NOT_FOUND; INVALID_ARGUMENT: no digest.
  absl::StatusOr<Piece> Read(const std::string& digest, uint64_t offset, size_t most) const;

  const std::string& path() const { return path_; }

 private:
  ArtifactFolder(std::string snapshot_dir, Use use, int64_t bytes_max);
  std::string FileOf(absl::string_view digest) const;
  absl::Status MakeRoom(int64_t bytes);
  // Names of files that snapshots name.
  std::set<std::string> Named() const;

  const std::string snapshot_dir_;
  const std::string path_;
  const Use use_;
  const int64_t bytes_max_;
  std::mutex mutex_;  // one writer at a time
};

}  // namespace tune::server
