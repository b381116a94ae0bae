// SPDX-License-Identifier: Apache-2.0
// Files that processes of a user on a node share: written whole, checked when read.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/libtune/environment.h"

namespace tune::library {

// INVALID_ARGUMENT, with the path: no regular file of at most that many bytes.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path, size_t bytes_max);

// Whose files count as the daemon's: ours, root's, TUNE_DAEMON_USER's, by name or number.
absl::StatusOr<std::set<uint32_t>> TrustedUsers(const Environment& environment);

// Can nobody but those have put the file there?
absl::Status CheckOwner(const std::string& path, const Environment& environment);

// Not there, or not ours alone, it is none: reading fails, writing does nothing.
class NodeFolder {
 public:
  // `files_max`: of those that are named by their digest. When one is kept, older ones go.
  NodeFolder(std::string path, size_t files_max) : path_(std::move(path)), files_max_(files_max) {}

  absl::StatusOr<std::string> Read(const std::string& name, size_t bytes_max) const;
  // Since it was written, in seconds; infinite where it is not there.
  double Age(const std::string& name) const;
  bool Keep(const std::string& name, absl::string_view data) const;

 private:
  bool IsOurs() const;
  // Removes what processes that died left unfinished, and all but the newest files. Nothing of the
  // last day.
  void Prune(const std::string& kept) const;

  const std::string path_;  // empty: none
  const size_t files_max_;
};

}  // namespace tune::library
