// SPDX-License-Identifier: Apache-2.0
// Artifacts on disk, found by a hash of their compile's inputs. Each entry is a file of its own, so
// that a crash loses at most the entry being written, and a damaged entry is detected and costs one
// compile.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/supervision/limits.h"
#include "tune/worker/v1/worker.pb.h"
#include "tuner/device/compiler.h"
#include "tuner/plan.h"

namespace tune::server {

// SHA-256, hex, over all inputs of a compile: the origin of the text, language and target, the
// source and the headers with their names, defines, options and entries in order, the compiler's
// version and the format of the entry. With the origin among them, a result compiled from one
// kernel's text never answers for another's.
std::string CompileKey(const CompilePlan& plan, const std::string& compiler_version);

// Thread-safe, also between processes that share the folder.
class CompileCache {
 public:
  // Creates the folder if it does not exist.
  static absl::StatusOr<std::unique_ptr<CompileCache>> Open(
      const std::string& dir, int64_t bytes_max = Limits().cache_bytes);

  // Returns nullopt if the entry is missing or damaged; a damaged entry is removed. A hit counts as
  // a use.
  std::optional<Artifact> Get(const std::string& key);
  // Durable when it returns. Over the size limit, the entries unused for longest are removed.
  absl::Status Put(const std::string& key, const worker::v1::Artifact& artifact);

  // Removes every entry, also those of earlier formats, and returns the bytes removed. UNAVAILABLE
  // if some could not be removed.
  absl::StatusOr<int64_t> Clear();

  int64_t bytes();
  // Calls of Get since the cache was opened, by what they found.
  uint64_t hits() const { return hits_; }
  uint64_t misses() const { return misses_; }
  // Like bytes(), but never waits: 0 until the entries have been counted.
  int64_t known_bytes() const { return std::max<int64_t>(0, bytes_); }

 private:
  CompileCache(std::string dir, int64_t bytes_max);
  std::string PathOf(const std::string& key) const;
  std::optional<Artifact> Find(const std::string& key);
  void Evict() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string dir_;
  const int64_t bytes_max_;
  Mutex mutex_;
  // Written under mutex_. Counted on first use; -1 until then.
  std::atomic<int64_t> bytes_ = -1;
  std::atomic<uint64_t> hits_ = 0;
  std::atomic<uint64_t> misses_ = 0;
};

}  // namespace tune::server
