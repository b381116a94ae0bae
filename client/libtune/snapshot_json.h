// SPDX-License-Identifier: Apache-2.0
// A snapshot's header, targets and kernels (docs/snapshots.md), from their JSON; lookup/ reads its
// records and grids. Errors are INVALID_ARGUMENT and name the member that is missing or of another
// kind.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/libtune/config_rules.h"
#include "lookup/snapshot_json.h"

namespace tune::library {

using lookup::Json;

inline absl::Status Damaged(absl::string_view why) { return absl::InvalidArgumentError(why); }

// Returns the number of a snapshot from its header, whatever its version.
absl::StatusOr<int64_t> ReadHeader(const Json& json);
absl::StatusOr<TargetTraits> ReadTarget(const std::string& name, const Json& json);
absl::StatusOr<SnapshotKernel> ReadKernel(const Json& json);

}  // namespace tune::library
