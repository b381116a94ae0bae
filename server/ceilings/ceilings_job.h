// SPDX-License-Identifier: Apache-2.0
// Measures all the ceilings of a device.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "db/store.h"
#include "server/devices/devices.h"
#include "server/supervision/workers.h"

namespace tune::server {

using TellStep = std::function<void(const std::string& step)>;

struct CeilingsOrder {
  std::string device;      // id; empty: as Devices::Choose
  bool remeasure = false;  // also what is known and fresh
  uint32_t processes = 0;  // 0: five; at most kCeilingProcessesMax
};

inline constexpr uint32_t kCeilingProcessesMax = 20;

// The whole suite in fresh processes, stored. The device with all that is known of it.
absl::StatusOr<DeviceView> MeasureAllCeilings(const CeilingsOrder& order, db::Store& store,
                                              Workers& workers, Devices& devices,
                                              absl::Time deadline, const Cancelled& cancelled,
                                              const TellStep& tell);

// One ceiling from what several processes measured: median and interval. REQUIRES: not empty, and
// all of the same name.
db::CeilingRow Combine(const std::vector<Ceiling>& measured);

}  // namespace tune::server
