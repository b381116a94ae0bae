// SPDX-License-Identifier: Apache-2.0
// What the members of a snapshot's file say (docs/snapshots.md), from their JSON. Errors are
// INVALID_ARGUMENT and name the field that is missing or of another kind.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/libtune/grids.h"
#include "client/libtune/kernel_rules.h"
#include "lookup/index.h"
#include "lookup/record.h"

namespace tune::library {

using Json = nlohmann::ordered_json;

// What a look-up does not need of a record, and an answer does.
struct Evidence {
  std::string confidence;  // "confirmed", "tied", "noisy"
  std::string digest;      // of the measurement
};

struct SnapshotRecord {
  lookup::Record row;
  Evidence evidence;
  // Not one of a later version, which no question is about. Else the row's dtype is not set.
  bool dtype_is_known = true;
};

// Those of a header, of any version. Its number.
absl::StatusOr<int64_t> ReadHeader(const Json& json);
absl::StatusOr<Target> ReadTarget(const std::string& name, const Json& json);
absl::StatusOr<KernelRules> ReadKernel(const Json& json);
// Its kernel's name; empty: there is none.
std::string KernelOfGrid(const Json& json);
absl::StatusOr<Grid> ReadGrid(const Json& json);
absl::StatusOr<SnapshotRecord> ReadRecord(const Json& json);

// The same of a record's line. As a daemon lays them out, that needs no JSON of the whole.
// DATA_LOSS: it is no JSON at all.
absl::StatusOr<SnapshotRecord> ReadRecordLine(absl::string_view line);

// Does a latency lie in its interval?
bool IsInterval(const Measurement& measured);
// Sets the key's dtype, if it is one that is known here.
void SetDType(const std::string& name, SnapshotRecord& record);

}  // namespace tune::library
