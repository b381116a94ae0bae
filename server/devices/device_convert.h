// SPDX-License-Identifier: Apache-2.0
// Devices and their ceilings as messages.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "db/store.h"
#include "server/devices/devices.h"
#include "tune/v1/device.pb.h"

namespace tune::server {

// "B/s", "FLOP/s", "OP/s", "ns".
std::string UnitOf(const Ceiling& ceiling);

v1::Ceiling ToProto(const db::CeilingRow& row, const DeviceInfo& info, absl::Time now);
v1::Device ToProto(const DeviceView& view);

}  // namespace tune::server
