// SPDX-License-Identifier: Apache-2.0
// Calibrations as messages.
#pragma once

#include "db/store.h"
#include "tune/v1/profile.pb.h"

namespace tune::server {

v1::Calibration ToProto(const db::CalibrationRow& row);

}  // namespace tune::server
