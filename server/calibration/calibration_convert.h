// SPDX-License-Identifier: Apache-2.0
// Calibrations as messages.
#pragma once

#include "db/device_store.h"
#include "server/wire/codec.h"
#include "tune/v1/profile.pb.h"

namespace tune::server {

inline v1::Calibration ToProto(const db::CalibrationRow& row) {
  return Encoded<v1::Calibration>(row, {"id"});
}

}  // namespace tune::server
