// SPDX-License-Identifier: Apache-2.0
// A snapshot in memory: checked when it is read, never changed afterwards. docs/snapshots.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/library/grids.h"
#include "client/library/kernel_rules.h"
#include "server/records/lookup/index.h"

namespace tune::library {

inline constexpr size_t kSnapshotBytesMax = size_t{256} << 20;

// "sha256:<64 hex digits>", in lower case.
std::string DigestOf(absl::string_view data);
bool IsDigest(absl::string_view text);

// What a look-up does not need of a record, and an answer does.
struct Evidence {
  std::string confidence;  // "confirmed", "tied", "noisy"
  std::string digest;      // of the measurement
};

// Immutable. Thread-safe.
class Snapshot {
 public:
  // INVALID_ARGUMENT: damaged, of another version, or not what `wanted_digest` names, if that is
  // not empty.
  static absl::StatusOr<std::shared_ptr<const Snapshot>> Parse(const std::string& data,
                                                               const std::string& wanted_digest);

  const std::string& digest() const { return digest_; }
  int64_t number() const { return number_; }
  const std::vector<std::string>& kernel_names() const { return kernel_names_; }  // sorted
  const KernelRules* FindKernel(const std::string& name) const;
  // What every architecture can give, of a target that the snapshot does not describe.
  Target TargetNamed(const std::string& name) const;
  // What the CPU device of any host compiles for.
  const std::string& host_target() const { return host_target_; }

  struct Seen {
    std::string target;
    int64_t newest = 0;  // the number of its newest record
  };
  const std::map<std::string, Seen>& devices() const { return devices_; }

  // Of a kernel's sweeps. Snapshots of older daemons have none.
  const std::vector<Grid>& GridsOf(const std::string& kernel) const;
  const server::LookupIndex& index() const { return *index_; }
  // REQUIRES: a record of the index.
  const Evidence& EvidenceOf(const db::RecordRow& record) const;

 private:
  Snapshot() = default;
  class Reader;

  std::string digest_;
  int64_t number_ = 0;
  std::vector<std::string> kernel_names_;
  std::map<std::string, KernelRules> kernels_;
  std::map<std::string, Target> targets_;
  std::map<std::string, std::vector<Grid>> grids_;  // by kernel
  std::string host_target_;
  std::map<std::string, Seen> devices_;
  std::vector<Evidence> evidence_;  // a record's trial has its place here for an id
  std::shared_ptr<const server::LookupIndex> index_;
};

}  // namespace tune::library
