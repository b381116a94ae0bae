// SPDX-License-Identifier: Apache-2.0
// Counts kernels whose counts are known, to learn how a device's counters count.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "db/store.h"
#include "server/ceilings/ceilings_job.h"
#include "server/devices/devices.h"
#include "server/supervision/workers.h"

namespace tune::server {

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
