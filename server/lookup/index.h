// SPDX-License-Identifier: Apache-2.0
// Look-ups: the best known config for a problem, and why it is the one. An index is built from one
// set of records and never changes, so threads share it without locks and ranks that share its
// number get the same answers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "db/store.h"
#include "server/lookup/point_tree.h"
#include "tuner/problem.h"

namespace tune::server {

// How a dim of a problem must match that of a record.
enum class DimMatch {
  kNearest,   // any value may answer, the nearest first
  kExact,     // only the same value
  kBucketed,  // the same up to the next power of two counts as a hit
  kIgnored,   // does not matter
};

// What an index needs to know of a kernel. A kernel or dim that nobody describes is kNearest.
struct KernelPolicy {
  std::string kernel_name;
  std::string kernel_hash;  // today's source; what a query that names no hash asks for
  std::map<std::string, DimMatch> dims;
};

struct LookupQuery {
  std::string kernel_name;
  std::string kernel_hash;  // empty: the policy's, if there is one, else any
  Problem problem;
  std::string device_name;
  std::string target;
};

// From the best to the worst. Values are those of the wire.
enum class Match { kExact = 1, kBucketed = 2, kNearest = 3, kOtherDevice = 4, kNone = 5 };

struct LookupAnswer {
  Match match = Match::kNone;
  std::string reason;                     // one sentence: what differs, both values, how far
  const db::RecordRow* record = nullptr;  // of the index; null for kNone
  const Config* config = nullptr;         // the record's
};

// Immutable. Thread-safe.
class LookupIndex {
 public:
  // Says whether a record's config is valid for the problem asked for.
  using Accept = absl::FunctionRef<bool(const db::RecordRow&)>;

  // REQUIRES: the records are current ones, at most one of each key.
  static std::shared_ptr<const LookupIndex> Build(std::vector<db::RecordRow> records,
                                                  const std::vector<KernelPolicy>& policies);
  ~LookupIndex();
  LookupIndex(const LookupIndex&) = delete;
  LookupIndex& operator=(const LookupIndex&) = delete;

  // The first that there is of: the same problem, the same bucket, the nearest problem, all on the
  // device; the same for another source of the kernel (as kNearest); the same problem or bucket on
  // another device of the target. Equally near records: cold caches before warm, then the newest.
  LookupAnswer Lookup(const LookupQuery& query) const;
  // The same among records that `accept` takes. It is asked about a few dozen records at most.
  LookupAnswer Lookup(const LookupQuery& query, Accept accept) const;

  // The newest record's id, 0 without records: grows with every publish.
  int64_t snapshot_id() const { return snapshot_id_; }
  const std::vector<db::RecordRow>& records() const { return records_; }

 private:
  // Kernel, hash, device, target, dtype, names of the dims, then the values that must be the same.
  using Key = absl::InlinedVector<int64_t, 10>;
  struct Kernel;
  struct Located;
  struct Found;

  explicit LookupIndex(std::vector<db::RecordRow> records);
  Kernel& AddKernel(const std::string& name);
  void Describe(const std::vector<KernelPolicy>& policies);
  void AddTrees();
  int64_t Intern(absl::string_view text);
  int64_t IdOf(absl::string_view text) const;
  Located Locate(const Kernel& kernel, const Problem& problem, const std::string& target) const;
  Found SearchTree(Located& located, int64_t hash, int64_t device, Match last, Accept accept) const;
  Found SearchKernel(const Kernel& kernel, const std::string& wanted_hash, const LookupQuery& query,
                     Accept accept) const;

  std::vector<db::RecordRow> records_;  // by rank: the better of two equally near ones first
  int64_t snapshot_id_ = 0;
  absl::flat_hash_map<std::string, int64_t> ids_;  // of every text in a key
  absl::flat_hash_map<std::string, std::unique_ptr<Kernel>> kernels_;
  absl::flat_hash_map<Key, PointTree> trees_;
};

}  // namespace tune::server
