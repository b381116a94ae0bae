// SPDX-License-Identifier: Apache-2.0
// A snapshot in memory: checked when it is read, never changed afterwards. docs/snapshots.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/libtune/config_rules.h"
#include "client/libtune/grids.h"
#include "client/libtune/made_once.h"
#include "client/libtune/snapshot_json.h"
#include "lookup/index.h"
#include "lookup/place.h"
#include "lookup/record.h"
#include "lookup/snapshot_json.h"
#include "lookup/snapshot_lines.h"

namespace tune::library {

inline constexpr size_t kSnapshotBytesMax = size_t{256} << 20;

// "sha256:<64 hex digits>", in lower case.
std::string DigestOf(absl::string_view data);
bool IsDigest(absl::string_view text);

// A winner of another tuner, as the daemon's vault has it.
struct VaultEntry {
  std::string key;
  std::string value;  // JSON
  int64_t stored_unix_ms = 0;
};

// A snapshot in memory. A file whose digest verifies is parsed lazily, one kernel at a time. A
// kernel that does not parse is treated as absent.
//
// Immutable for its users. Thread-safe, without locks.
class Snapshot {
 public:
  // INVALID_ARGUMENT: damaged, of another version, or not what `wanted_digest` names, if that is
  // not empty.
  static absl::StatusOr<std::shared_ptr<const Snapshot>> Parse(std::string data,
                                                               const std::string& wanted_digest);

  // The files that ship, of a device each, as one snapshot. They are whole, as gzip's sums tell, so
  // that they are read by their lines. Its digest is that of all their bytes. INVALID_ARGUMENT.
  static absl::StatusOr<std::shared_ptr<const Snapshot>> ParseAll(std::vector<std::string> files,
                                                                  const std::string& wanted_digest);

  const std::string& digest() const { return digest_; }
  int64_t number() const { return number_; }
  const std::vector<std::string>& kernel_names() const { return kernel_names_; }  // sorted
  const SnapshotKernel* FindKernel(const std::string& name) const;
  // The entries of another tuner, newest first.
  const std::vector<VaultEntry>& VaultOf(const std::string& tuner) const;
  // The traits of a target. One that the snapshot does not describe has what every architecture
  // offers.
  TargetTraits TargetNamed(const std::string& name) const;

  // The devices that have records. Looks at all records, once.
  const lookup::SeenDevices& devices() const;

  // The grids of a kernel's sweeps. Snapshots of older daemons have none.
  const std::vector<Grid>& GridsOf(const std::string& kernel) const;
  // The index of a kernel's records.
  const lookup::Index& IndexOf(const std::string& kernel) const;
  // REQUIRES: a record of an index.
  const lookup::Evidence& EvidenceOf(const lookup::Record& record) const;

 private:
  struct Records {
    lookup::SeenDevices devices;
    std::vector<lookup::Evidence> evidence;  // a record's trial has its place here for an id
    std::shared_ptr<const lookup::Index> index;
  };
  // The parts of the file about a kernel's name.
  struct OfKernel {
    lookup::KernelLines lines;  // none: all that follows is there already
    MadeOnce<std::optional<SnapshotKernel>> rules;
    MadeOnce<Records> records;
    MadeOnce<std::vector<Grid>> grids;
  };

  Snapshot() = default;
  absl::Status ReadHead(const Json& json);
  void ReadVault(const Json& json);
  absl::Status ReadWhole(const Json& json);
  void TakeLines(lookup::LinesByKernel by_kernel);
  Records IndexedRecords(const std::string& kernel,
                         std::vector<lookup::SnapshotRecord> records) const;
  const OfKernel& Of(const std::string& kernel) const;
  const Records& RecordsOf(const std::string& kernel) const;

  std::vector<std::string> files_;  // that the lines point into
  std::string digest_;
  int64_t number_ = 0;
  std::vector<std::string> kernel_names_;
  std::map<std::string, std::vector<VaultEntry>> vault_;  // by tuner
  std::map<std::string, TargetTraits> targets_;
  std::map<std::string, OfKernel> kernels_;
  OfKernel nothing_;  // of a name that the file does not have
  MadeOnce<lookup::SeenDevices> devices_;
};

}  // namespace tune::library
