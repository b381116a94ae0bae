// SPDX-License-Identifier: Apache-2.0
// Ceilings, profiles and calibrations as messages.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "db/store.h"
#include "tune/v1/device.pb.h"
#include "tune/v1/profile.pb.h"
#include "tuner/device/runner.h"

namespace tune::server {

// Why a ceiling should be measured again: its age, another driver, another device of the same name.
// Empty if it need not be.
std::string StaleReason(const db::CeilingRow& row, const DeviceInfo& info, absl::Time now);

// "B/s", "FLOP/s", "OP/s", "ns".
std::string UnitOf(const Ceiling& ceiling);

v1::Ceiling ToProto(const db::CeilingRow& row, const DeviceInfo& info, absl::Time now);
v1::Profile ToProto(const db::ProfileRow& row);
v1::Calibration ToProto(const db::CalibrationRow& row);

// Unspecified: the default set. INVALID_ARGUMENT for a number that is no set.
absl::StatusOr<MetricSet> FromProto(v1::MetricSet set);

}  // namespace tune::server
