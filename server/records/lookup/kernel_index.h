// SPDX-License-Identifier: Apache-2.0
// The part of a look-up index that is about one kernel name. A publish copies and extends this part
// alone, so that it costs the same however many other records there are.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "server/records/lookup/index.h"
#include "server/records/lookup/point_tree.h"

namespace tune::server {

// Immutable. Thread-safe.
class KernelIndex {
 public:
  using Accept = LookupIndex::Accept;
  using Record = LookupIndex::Record;

  // REQUIRES: `records` are of one kernel name, oldest first.
  static std::shared_ptr<const KernelIndex> Build(const KernelPolicy& policy,
                                                  std::vector<Record> records);
  // The same and a record that is newer than all. It replaces what there is of its key.
  std::shared_ptr<const KernelIndex> With(const Record& record) const;

  LookupAnswer Lookup(const LookupQuery& query, Accept accept) const;

  const KernelPolicy& policy() const { return policy_; }
  // The newest of each key, newest first.
  std::vector<Record> CurrentRecords() const;

 private:
  // Hash, device, target, dtype, names of the dims, then the values that must be the same.
  using Key = absl::InlinedVector<int64_t, 10>;
  struct Located;
  struct Found;
  struct Points;

  explicit KernelIndex(const KernelPolicy& policy) : policy_(policy) {}
  int64_t Intern(absl::string_view text);
  int64_t IdOf(absl::string_view text) const;
  // A wildcard's trees are only built where they differ from the only tree there is.
  int64_t AnyHash() const;
  int64_t AnyDevice() const;
  void Describe(const db::RecordRow& record);
  uint32_t RankOf(size_t position) const;
  const db::RecordRow& At(uint32_t rank) const;
  Located Locate(const Problem& problem, const std::string& target) const;
  std::vector<Key> KeysOf(const db::RecordRow& record, Located& located) const;
  void AddTrees();
  Found SearchTree(Located& located, int64_t hash, int64_t device, Match last, Accept accept) const;
  Found Search(const std::string& wanted_hash, const LookupQuery& query, Accept accept) const;

  const KernelPolicy policy_;
  std::vector<Record> records_;  // oldest first; those that newer ones replaced are in no tree
  std::set<int64_t> hashes_;
  std::set<int64_t> devices_;
  std::map<std::string, std::set<std::string>> dtypes_by_target_;
  absl::flat_hash_map<std::string, int64_t> ids_;  // of every text in a key
  absl::flat_hash_map<Key, std::shared_ptr<const PointTree>> trees_;
};

}  // namespace tune::server
