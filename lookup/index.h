// SPDX-License-Identifier: Apache-2.0
// Look-ups: the best known config for a problem, and why it is the one. An index is made from one
// set of records and never changes, so threads share it without locks and ranks that share its
// number get the same answers. A publish makes another index, which shares most of the old one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "base/cancelled.h"
#include "lookup/record.h"
#include "tuner/problem.h"

namespace tune::lookup {

using tune::DimMatch;

// The include digest of a policy whose kernel has include roots that are not offered here.
inline constexpr char kHeadersNotOffered[] = "not offered";

// The rules by which an index matches records of one kernel. A kernel or dim without a policy is
// kNearest.
struct KernelPolicy {
  std::string kernel_name;
  std::string kernel_hash;  // today's source; what a query that names no hash asks for
  std::map<std::string, DimMatch> dims;
  // Identifies today's headers in the kernel's include roots, as a record's key does. Records of
  // other headers answer as those of another source do, and so do all records if this is
  // kHeadersNotOffered. Empty if the kernel has no include roots, or a snapshot does not tell;
  // headers then do not count.
  std::string include_digest = {};

  bool HasHeadersOf(const TrialKey& key) const {
    return include_digest.empty() || include_digest == key.include_digest;
  }

  friend bool operator==(const KernelPolicy&, const KernelPolicy&) = default;
};

struct Query {
  std::string kernel_name;
  std::string kernel_hash;  // empty: the policy's, if there is one, else any
  Problem problem;
  std::string device_name;
  std::string target;
  std::string driver;  // that the device has; empty: not known
};

// From the best to the worst. Values are those of the wire.
enum class Match { kExact = 1, kBucketed = 2, kNearest = 3, kOtherDevice = 4, kNone = 5 };

struct Answer {
  Match match = Match::kNone;
  std::string reason;                    // one sentence: what differs, both values, how far
  std::shared_ptr<const Record> record;  // null for kNone
  const Config* config = nullptr;        // the record's
  // The record's bytes in the index's file, valid as long as the index. Empty if it is in no file.
  absl::string_view saved_record;
};

class KernelIndex;
class RecordFile;
struct RecordCodec;

// Immutable. Thread-safe.
class Index {
 public:
  // Reports whether a record's config is valid for the problem asked for.
  using Accept = absl::FunctionRef<bool(const Record&)>;

  // REQUIRES: the records are current ones, at most one of each key.
  static std::shared_ptr<const Index> Build(std::vector<Record> records,
                                            const std::vector<KernelPolicy>& policies);
  // Opens a file that Save wrote, under today's policies. DATA_LOSS if the file is damaged.
  static absl::StatusOr<std::shared_ptr<const Index>> Open(
      const std::shared_ptr<const RecordFile>& file, const std::vector<KernelPolicy>& policies);
  // Writes the index to a file, with a note that NoteOf returns. CANCELLED.
  absl::Status Save(const std::string& path, const std::string& note, const RecordCodec& codec,
                    const Cancelled& cancelled) const;
  // Returns the note of a file that Save wrote. DATA_LOSS.
  static absl::StatusOr<std::string> NoteOf(const RecordFile& file);

  // Returns an index that also has `record`, which is newer than all others and replaces the
  // current record of its key. Shares all but the record's kernel with this index. `policy` is
  // today's of that kernel.
  std::shared_ptr<const Index> With(Record record, const KernelPolicy& policy) const;
  // Adds several records, oldest first. `policies` are today's.
  std::shared_ptr<const Index> With(const std::vector<RecordPtr>& records,
                                    const std::vector<KernelPolicy>& policies) const;

  // Returns the first of these that exists. On the device: the same problem, the same bucket, the
  // nearest problem; then each of these for another source of the kernel (as kNearest). On another
  // device of the target: the same problem, then the same bucket. Among equally near records, cold
  // caches come before warm ones, then the newest.
  Answer Lookup(const Query& query) const;
  // Considers only records that `accept` takes, which is called for a few dozen records at most.
  Answer Lookup(const Query& query, Accept accept) const;

  // The newest record's id, 0 without records: grows with every publish.
  int64_t snapshot_id() const { return snapshot_id_; }
  // All current records, newest first. Visits every record.
  std::vector<RecordPtr> Records() const;
  // The current records of one kernel.
  std::vector<RecordPtr> Records(const std::string& kernel_name) const;
  // Records with higher ids than `id` that are in no file, oldest first, including replaced ones.
  std::vector<RecordPtr> UnsavedSince(int64_t id) const;
  size_t unsaved_count() const;
  // An upper bound of the number of current records, and a close one.
  size_t record_count() const;

 private:
  Index() = default;

  int64_t snapshot_id_ = 0;
  absl::flat_hash_map<std::string, std::shared_ptr<const KernelIndex>> kernels_;
};

}  // namespace tune::lookup
