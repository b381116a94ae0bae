// SPDX-License-Identifier: Apache-2.0
// The part of a store (db/store.h) for devices. What was measured of devices: ceilings and
// calibrations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fields.h"
#include "tuner/ceiling.h"
#include "tuner/counters/profile.h"

namespace tune::db {

struct CeilingRow {
  std::string device_name;
  std::string driver;
  Ceiling ceiling;
  int64_t measured_unix_ms = 0;
  std::string uuid;                    // of the device; empty: measured before it was kept
  std::vector<double> process_values;  // one figure of each fresh process
};
TUNE_FIELDS(CeilingRow, device_name, driver, ceiling, measured_unix_ms, uuid, process_values);

struct CalibrationRow {
  int64_t id = 0;
  std::string device_name;
  std::string chip;
  std::string driver;
  std::string uuid;
  int64_t measured_unix_ms = 0;
  std::vector<CalibrationEntry> entries;
};
TUNE_FIELDS(CalibrationRow, id, device_name, chip, driver, uuid, measured_unix_ms, entries);

// Thread-safe.
class DeviceStore {
 public:
  virtual ~DeviceStore() = default;

  virtual absl::Status PutCeilings(const std::vector<CeilingRow>& ceilings) = 0;
  // The newest ceiling of each name, sorted by name. An empty `driver` matches every driver; an
  // empty `uuid` matches every device of that name. Rows of an older schema have no UUID, and serve
  // any device of the name until it has its own.
  virtual absl::StatusOr<std::vector<CeilingRow>> GetCeilings(const std::string& device_name,
                                                              const std::string& driver,
                                                              const std::string& uuid) = 0;
  virtual absl::StatusOr<int64_t> AppendCalibration(const CalibrationRow& row) = 0;
  // The newest calibration. NOT_FOUND if there is none of this device, or of this chip if no device
  // is named.
  virtual absl::StatusOr<CalibrationRow> LatestCalibration(const std::string& device_name,
                                                           const std::string& chip) = 0;
};

}  // namespace tune::db
