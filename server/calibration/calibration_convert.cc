// SPDX-License-Identifier: Apache-2.0
#include "server/calibration/calibration_convert.h"

#include "server/wire/nouns.h"

namespace tune::server {

v1::Calibration ToProto(const db::CalibrationRow& row) {
  v1::Calibration proto;
  proto.set_device_name(row.device_name);
  proto.set_chip(row.chip);
  proto.set_driver(row.driver);
  proto.set_uuid(row.uuid);
  proto.set_measured_unix_ms(row.measured_unix_ms);
  for (const CalibrationEntry& entry : row.entries) {
    v1::CalibrationEntry* added = proto.add_entries();
    added->set_name(entry.name);
    added->set_counter(entry.counter);
    added->set_expected(entry.expected);
    added->set_counted(entry.counted);
    added->set_multiplier(entry.multiplier);
    added->set_tolerance(entry.tolerance);
    added->set_passed(entry.passed);
    added->set_message(Utf8(entry.message));
  }
  return proto;
}

}  // namespace tune::server
