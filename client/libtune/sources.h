// SPDX-License-Identifier: Apache-2.0
// Finds a snapshot in these sources, in this order, each tried at most once:
//
// 1. a file: what is named, or the folder that the host's daemon writes;
// 2. the node's cache, which processes share;
// 3. the daemon;
// 4. the bundle: a folder's snapshot.json, or the records that ship. It is share/tunectl of the
//    install, unless the caller names another.
//
// Whatever fails on the way is remembered and told.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/libtune/environment.h"
#include "client/libtune/snapshot.h"

namespace tune::library {

inline constexpr double kFreshSeconds = 60;

// Which snapshot is wanted.
struct Wish {
  std::string digest;  // empty: the newest
  std::string path;    // a file, or the number of one of the host's; not empty: no other
  // How long the processes of a node take what one of them has fetched for the newest, in seconds.
  double fresh_seconds = kFreshSeconds;

  // Parses "sha256:<hex>", "latest", "", a path or a number. INVALID_ARGUMENT: a malformed digest.
  static absl::StatusOr<Wish> Parse(const std::string& text);
  bool pinned() const { return !digest.empty() || !path.empty(); }
};

// A Found's source, of share/tunectl.
inline constexpr char kBundled[] = "bundled";

struct Found {
  std::shared_ptr<const Snapshot> snapshot;  // null: there is none
  std::string source;                        // "file", "cache", "daemon", "bundled", "none"
  std::vector<std::string> notes;            // what failed on the way, a sentence each
  std::string folder;                        // that the file lies in, where it is a file
};

struct Daemon {
  std::string address;
  std::chrono::milliseconds timeout;  // not positive: it is not asked
  // Says where files lie, too. Not null.
  std::shared_ptr<const Environment> environment;
  std::string bundle = {};  // the folder of what is left at last; empty: share/tunectl
  int end_fd = -1;          // where this can be read from, the looking is given up
};

// The digest of the newest snapshot of the host's daemon, without reading the file; empty if it is
// not known.
std::string DigestInFolder(const Daemon& daemon);

// Waits no longer than the timeout for the daemon, and for nobody else.
Found FindSnapshot(const Wish& wish, const Daemon& daemon);

// The file of an artifact, checked; `folder`: as Found's. NOT_FOUND, with what failed everywhere.
absl::StatusOr<std::string> FindArtifact(const std::string& digest, const std::string& folder,
                                         const Daemon& daemon);

}  // namespace tune::library
