// SPDX-License-Identifier: Apache-2.0
// The part of a store (db/store.h) that counts the bytes that each principal's jobs have stored,
// and removes old results. Triggers of the schema keep the sums, so that reading one costs a row,
// however much is stored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/kernel_store.h"

namespace tune::db {

struct StoredBytes {
  std::string owner;
  uint64_t kernel_bytes = 0;    // specs and sources
  uint64_t result_bytes = 0;    // jobs, and the rows that they wrote
  uint64_t artifact_bytes = 0;  // as SetArtifactBytes was told last

  uint64_t all() const { return kernel_bytes + result_bytes + artifact_bytes; }
};

// Selects the finished jobs whose results are to be removed.
struct PruneFilter {
  std::string owner;           // empty: anybody's
  int64_t before_unix_ms = 0;  // those that had ended by then
  bool dry_run = false;        // nothing is removed, and it is counted what would be
};

struct Pruned {
  uint64_t jobs = 0;
  uint64_t trials = 0;
  uint64_t bytes = 0;       // as StoredBytes counts them
  int64_t last_job_id = 0;  // 0: none fitted
};

// Thread-safe.
class Retention {
 public:
  virtual ~Retention() = default;

  // Stores a kernel for a principal; each kernel of a principal counts once. RESOURCE_EXHAUSTED,
  // and nothing is stored, if the specs and sources of the principal's kernels would exceed
  // `bytes_max`.
  virtual absl::Status KeepKernel(const std::string& owner, const KernelRow& kernel,
                                  uint64_t bytes_max) = 0;
  virtual absl::StatusOr<StoredBytes> StoredBy(const std::string& owner) = 0;
  // Returns the owners who have stored most, in falling order.
  virtual absl::StatusOr<std::vector<StoredBytes>> StoredMost(uint32_t limit) = 0;
  // The artifacts of an owner's records, each once.
  virtual absl::StatusOr<std::vector<std::string>> ArtifactsOf(const std::string& owner) = 0;
  // The name spaces of the records that have this artifact.
  virtual absl::StatusOr<std::vector<std::string>> NameSpacesOf(const std::string& artifact) = 0;
  virtual absl::Status SetArtifactBytes(const std::string& owner, uint64_t bytes) = 0;
  // Removes what some jobs with higher ids than `after_job_id` have stored and counts, with sources
  // that nothing needs any more. The jobs stay. So does what a record depends on, and the newest
  // sweep, gate run and comparison, whose ids would be used again. Call it with the last id that
  // was returned until it returns none; that call removes the sources that neither a row nor an
  // unfinished job refers to, an hour after they were stored.
  virtual absl::StatusOr<Pruned> Prune(const PruneFilter& filter, int64_t after_job_id) = 0;
};

}  // namespace tune::db
