// SPDX-License-Identifier: Apache-2.0
// Profiles as messages.
#pragma once

#include "absl/status/statusor.h"
#include "db/profile_store.h"
#include "tune/v1/profile.pb.h"
#include "tuner/counters/counting.h"

namespace tune::server {

v1::Profile ToProto(const db::ProfileRow& row);

// Unspecified: the default set. INVALID_ARGUMENT for a number that is no set.
absl::StatusOr<MetricSet> FromProto(v1::MetricSet set);

}  // namespace tune::server
