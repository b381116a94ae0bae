// SPDX-License-Identifier: Apache-2.0
// What is measured of a device itself: all its ceilings, and how its counters count.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/store.h"
#include "server/devices.h"
#include "server/pool/workers.h"

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

struct Calibrated {
  db::CalibrationRow row;
  bool passed = false;
};

// Counts known kernels. Stored if all pass. FAILED_PRECONDITION: nothing can be counted here.
absl::StatusOr<Calibrated> CalibrateCounters(const std::string& device, db::Store& store,
                                             Workers& workers, Devices& devices,
                                             absl::Time deadline, const Cancelled& cancelled,
                                             const TellStep& tell);

}  // namespace tune::server
