// SPDX-License-Identifier: Apache-2.0
// The records and grids of a snapshot's file (docs/snapshots.md), from their JSON. Errors are
// INVALID_ARGUMENT and name the member that is missing or of another kind.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lookup/json_fields.h"
#include "lookup/record.h"
#include "tuner/transfer/shape_grid.h"

namespace tune::lookup {

// Fields of a record that an answer needs and a look-up does not.
struct Evidence {
  std::string confidence;  // "confirmed", "tied", "noisy"
  std::string digest;      // of the measurement
};

struct SnapshotRecord {
  Record row;
  Evidence evidence;
  // Not one of a later version, which no question is about. Else the row's dtype is not set.
  bool dtype_is_known = true;
};

// A kernel's sweeps on a device, in a dtype.
struct SnapshotGrid {
  std::string kernel_hash;
  std::string target;
  std::string device;
  std::string dtype;
  std::vector<std::pair<std::string, int64_t>> fixed;  // dims that must be equal
  ShapeGrid grid;
};

absl::StatusOr<Config> ReadConfig(const Json& json);
// Its kernel's name; empty: there is none.
std::string KernelOfGrid(const Json& json);
absl::StatusOr<SnapshotGrid> ReadGrid(const Json& json);
absl::StatusOr<SnapshotRecord> ReadRecord(const Json& json);

// Reads a record's line. For a line as a daemon writes it, this parses no JSON of the whole.
// DATA_LOSS: it is no JSON at all.
absl::StatusOr<SnapshotRecord> ReadRecordLine(absl::string_view line);

// The field that a shipped record has after those of other records; the rest of its line follows.
inline constexpr char kMeasuredMember[] = ",\"measured\":";

// Does a latency lie in its interval?
bool IsInterval(const Measurement& measured);
// Sets the key's dtype, if it is one that is known here.
void SetDType(const std::string& name, SnapshotRecord& record);

}  // namespace tune::lookup
