// SPDX-License-Identifier: Apache-2.0
// Artifacts on disk, found again by what they were made from. One file an entry, so that a
// crash loses at most the entry being written, and damage is noticed and costs one compile.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/supervision/limits.h"
#include "tune/worker/v1/worker.pb.h"
#include "tuner/device/compiler.h"
#include "tuner/plan.h"

namespace tune::server {

// SHA-256, hex, over everything that decides what comes out of a compile: whose text it is,
// language and target, the source and the headers with their names, defines, options and entries in
// order, the compiler's version and the format of what is kept. So what text of one origin had a
// compiler say is never taken for what it says of another's.
std::string CompileKey(const CompilePlan& plan, const std::string& compiler_version);

// Thread-safe, also between processes that share the folder.
class CompileCache {
 public:
  // Creates the folder if it is not there.
  static absl::StatusOr<std::unique_ptr<CompileCache>> Open(
      const std::string& dir, int64_t bytes_max = Limits().cache_bytes);

  // Nothing if it is not there or damaged; a damaged entry is removed. A hit counts as a use.
  std::optional<Artifact> Get(const std::string& key);
  // Durable when it returns. Over the size limit, the entries unused for longest are removed.
  absl::Status Put(const std::string& key, const worker::v1::Artifact& artifact);

  // Removes every entry, also those of earlier formats; how many bytes they had. UNAVAILABLE: some
  // could not be removed.
  absl::StatusOr<int64_t> Clear();

  int64_t bytes();
  // The same without a wait: 0 until they have been counted.
  int64_t known_bytes() const { return std::max<int64_t>(0, bytes_); }

 private:
  CompileCache(std::string dir, int64_t bytes_max);
  std::string PathOf(const std::string& key) const;
  void Evict();

  const std::string dir_;
  const int64_t bytes_max_;
  std::mutex mutex_;
  // Written under mutex_. Counted on first use; -1 until then.
  std::atomic<int64_t> bytes_ = -1;
};

}  // namespace tune::server
