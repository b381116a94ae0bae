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
  // Identifies today's headers in the kernel's include roots, as a record's key does. Records of
  // other headers answer as those of another source do. Empty: it has none, or they are not known,
  // and then they do not count.
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
  // As the index's file has it, for as long as the index lives; empty: it is in no file.
  absl::string_view saved_record;
};

class KernelIndex;
class RecordFile;
struct RecordCodec;

// Immutable. Thread-safe.
class Index {
 public:
  // Says whether a record's config is valid for the problem asked for.
  using Accept = absl::FunctionRef<bool(const Record&)>;

  // REQUIRES: the records are current ones, at most one of each key.
  static std::shared_ptr<const Index> Build(std::vector<Record> records,
                                            const std::vector<KernelPolicy>& policies);
  // What Save wrote, with the policies of today. DATA_LOSS: it is not as it was written.
  static absl::StatusOr<std::shared_ptr<const Index>> Open(
      const std::shared_ptr<const RecordFile>& file, const std::vector<KernelPolicy>& policies);
  // Writes it to a file, with a note to whoever opens that. CANCELLED.
  absl::Status Save(const std::string& path, const std::string& note, const RecordCodec& codec,
                    const Cancelled& cancelled) const;
  // Of a file that Save wrote. DATA_LOSS.
  static absl::StatusOr<std::string> NoteOf(const RecordFile& file);

  // The same and a record that is newer than all, in the place of what there is of its key. Shares
  // all but the record's kernel with this index. `policy` is today's of that kernel.
  std::shared_ptr<const Index> With(Record record, const KernelPolicy& policy) const;
  // The same and several, oldest first. `policies` are today's.
  std::shared_ptr<const Index> With(const std::vector<RecordPtr>& records,
                                    const std::vector<KernelPolicy>& policies) const;

  // The first that there is of: the same problem, the same bucket, the nearest problem, all on the
  // device; the same for another source of the kernel (as kNearest); the same problem or bucket on
  // another device of the target. Equally near records: cold caches before warm, then the newest.
  Answer Lookup(const Query& query) const;
  // The same among records that `accept` takes. It is asked about a few dozen records at most.
  Answer Lookup(const Query& query, Accept accept) const;

  // The newest record's id, 0 without records: grows with every publish.
  int64_t snapshot_id() const { return snapshot_id_; }
  // The current ones, newest first. Looks at every record.
  std::vector<RecordPtr> Records() const;
  // Of one kernel.
  std::vector<RecordPtr> Records(const std::string& kernel_name) const;
  // Those that are in no file and newer than a record, oldest first; replaced ones are among them.
  std::vector<RecordPtr> UnsavedSince(int64_t id) const;
  size_t unsaved_count() const;
  // At least as many as are current, and not many more.
  size_t record_count() const;

 private:
  Index() = default;

  int64_t snapshot_id_ = 0;
  absl::flat_hash_map<std::string, std::shared_ptr<const KernelIndex>> kernels_;
};

}  // namespace tune::lookup
