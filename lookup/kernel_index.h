// SPDX-License-Identifier: Apache-2.0
// The part of a look-up index that is about one kernel name. A publish copies and extends this part
// alone, so that it costs the same however many other records there are.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "base/cancelled.h"
#include "lookup/index.h"
#include "lookup/point_tree.h"
#include "lookup/record.h"
#include "lookup/record_file.h"
#include "tuner/trial_key.h"

namespace tune::lookup {

// Immutable. Thread-safe.
class KernelIndex {
 public:
  using Accept = Index::Accept;

  // REQUIRES: `records` are of one kernel name, oldest first.
  static std::shared_ptr<const KernelIndex> Build(const KernelPolicy& policy,
                                                  std::vector<RecordPtr> records);
  // Opens the part that Save described, under today's policy. DATA_LOSS.
  static absl::StatusOr<std::shared_ptr<const KernelIndex>> Open(
      const KernelPolicy& policy, std::shared_ptr<const RecordFile> file,
      const nlohmann::json& saved);
  // Appends this part to a file and returns a description of its layout. CANCELLED.
  absl::StatusOr<nlohmann::json> Save(RecordFileWriter& file, const RecordCodec& codec,
                                      const Cancelled& cancelled) const;
  // Returns a part that also has `record`, which is newer than all others and replaces that of its
  // key.
  std::shared_ptr<const KernelIndex> With(const RecordPtr& record) const;
  // Adds several records, oldest first.
  std::shared_ptr<const KernelIndex> With(const std::vector<RecordPtr>& records) const;

  Answer Lookup(const Query& query, Accept accept) const;

  const KernelPolicy& policy() const { return policy_; }
  // The newest of each key, newest first.
  std::vector<RecordPtr> CurrentRecords() const;
  // The records that are in no file, oldest first, including replaced ones.
  const std::vector<RecordPtr>& unsaved() const { return records_; }
  // Counts also records of the file that newer ones have replaced.
  size_t record_count() const;

 private:
  // Code, device, target, dtype, names of the dims, then the values that must be the same.
  using Key = absl::InlinedVector<int64_t, 10>;
  using Trees = absl::flat_hash_map<Key, std::shared_ptr<const PointTree>>;
  struct Located;
  struct Found;
  struct Points;
  // The content of the file: the oldest records, and trees over these alone.
  struct Saved {
    std::shared_ptr<const RecordFile> file;
    absl::Span<const uint64_t> places;  // of each record, oldest first: where, how many bytes
    // The values of AnyHash() and AnyDevice() when the file was written.
    int64_t any_hash = 0;
    int64_t any_device = 0;
    Trees trees;

    size_t record_count() const { return places.size() / 2; }
  };

  explicit KernelIndex(const KernelPolicy& policy) : policy_(policy) {}
  // Identifies a record's code: by its source and, if the policy knows them, its headers.
  std::string CodeOf(const TrialKey& key) const;
  // The code of a source with today's headers.
  std::string WantedCode(const std::string& kernel_hash) const;
  int64_t Intern(absl::string_view text);
  int64_t IdOf(absl::string_view text) const;
  // A wildcard's trees are only built where they differ from the only tree there is.
  int64_t AnyHash() const;
  int64_t AnyDevice() const;
  void Describe(const Record& record);
  size_t saved_count() const { return saved_ == nullptr ? 0 : saved_->record_count(); }
  // `position`: in records_.
  uint32_t RankOf(size_t position) const;
  // Null if the record is in a file that is damaged.
  RecordPtr At(uint32_t rank) const;
  RecordPtr ReadSaved(size_t position) const;
  // The record's bytes in the file; empty if it is in none.
  absl::string_view SavedBytes(uint32_t rank) const;
  // Null if no saved tree has this number of axes.
  const PointTree* SavedTree(Key key, size_t axes) const;
  Located Locate(const Problem& problem, const std::string& target) const;
  std::vector<Key> KeysOf(const Record& record, Located& located) const;
  void AddTrees();
  Found SearchTree(Located& located, int64_t hash, int64_t device, Match last, Accept accept) const;
  Found Search(const std::string& wanted_code, const Query& query, Accept accept) const;

  const KernelPolicy policy_;
  std::shared_ptr<const Saved> saved_;  // null: there is no file
  // Newer than the records of the file, oldest first. Replaced ones are in no tree.
  std::vector<RecordPtr> records_;
  std::set<int64_t> hashes_;
  std::set<int64_t> devices_;
  std::map<std::string, std::set<std::string>> dtypes_by_target_;
  absl::flat_hash_map<std::string, int64_t> ids_;  // of every text in a key
  Trees trees_;                                    // of records_
};

}  // namespace tune::lookup
