// SPDX-License-Identifier: Apache-2.0
// The folders of the daemon's state and of temporary files.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tune::server {

// Returns $TUNE_STATE_DIR, else $XDG_STATE_HOME/tunectl, else /var/lib/tunectl for root, else
// ~/.local/state/tunectl. FAILED_PRECONDITION if there is no home either.
absl::StatusOr<std::string> DefaultStateDir();

// Creates a folder and its parents; the last one is private (0700) if it is created here.
absl::Status MakeDir(const std::string& path);
// MakeDir for a folder whose files are trusted. FAILED_PRECONDITION if it exists and others may
// change it: it belongs to another user than this one or root, or its group or others may write.
absl::Status MakePrivateDir(const std::string& path);

// A private folder for temporary files in $TMPDIR, else /tmp. The destructor removes it with its
// content.
class PrivateFolder {
 public:
  static absl::StatusOr<PrivateFolder> Make();
  PrivateFolder(PrivateFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  PrivateFolder& operator=(PrivateFolder&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~PrivateFolder();

  const std::string& path() const { return path_; }

 private:
  explicit PrivateFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace tune::server
