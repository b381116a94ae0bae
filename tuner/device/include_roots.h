// SPDX-License-Identifier: Apache-2.0
// Folders of headers that an operator lets kernels include from: `--include-root NAME=DIR`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tune {

struct IncludeRoot {
  std::string name;    // as specs say
  std::string dir;     // absolute
  std::string digest;  // of the names and contents of its files, 64 hex digits
  // Changes if a file is written: of the names, sizes, times and numbers of its files.
  std::string stamp;
};

// Immutable: its digests are those of the headers when it was made. A compiler checks afterwards
// whether the headers still match.
class IncludeRoots {
 public:
  // "cutlass=/opt/cutlass/include" once for each. Reads all files.
  // INVALID_ARGUMENT: no name, one that is taken, or no folder there.
  static absl::StatusOr<IncludeRoots> Read(const std::vector<std::string>& texts);
  // Adds one whose digest does not matter here.
  absl::Status Add(const std::string& text);

  const std::vector<IncludeRoot>& all() const { return roots_; }
  // INVALID_ARGUMENT names one that is not there, those that are, and the flag.
  absl::Status Check(const std::vector<std::string>& names) const;
  // In the order of the names. REQUIRES: Check passes.
  std::vector<std::string> DirsOf(const std::vector<std::string>& names) const;
  // Identifies the headers in the roots named, 64 hex digits: equal if the names and contents of
  // all files are, wherever the folders lie. Empty: no root is named, or one is not there.
  std::string DigestOf(const std::vector<std::string>& names) const;
  // FAILED_PRECONDITION: a file of a root named was written, added or removed since Read.
  absl::Status CheckUnchanged(const std::vector<std::string>& names) const;

 private:
  const IncludeRoot* Find(const std::string& name) const;
  std::vector<IncludeRoot> roots_;
};

}  // namespace tune
