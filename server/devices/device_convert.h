// SPDX-License-Identifier: Apache-2.0
// Devices and their ceilings as messages.
#pragma once

#include "server/devices/devices.h"
#include "server/devices/stale_ceilings.h"
#include "tune/v1/device.pb.h"

namespace tune::server {

v1::Ceiling ToProto(const SeenCeiling& seen);
v1::Device ToProto(const DeviceView& view);

}  // namespace tune::server
