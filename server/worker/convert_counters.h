// SPDX-License-Identifier: Apache-2.0
// Converts ceilings and counters between worker.proto and the tuner's nouns, like convert.h.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "tune/worker/v1/worker.pb.h"
#include "tuner/device/runner.h"

namespace tune::server {

worker::v1::CeilingsReply ToWire(const std::vector<Ceiling>& ceilings);
// Leaves out values that are not positive, finite numbers.
absl::StatusOr<std::vector<Ceiling>> FromWire(const worker::v1::CeilingsReply& proto);

worker::v1::Count ToWire(const CountRequest& request);
absl::StatusOr<CountRequest> FromWire(const worker::v1::Count& proto);

worker::v1::CountReport ToWire(const CountReport& report);
absl::StatusOr<CountReport> FromWire(const worker::v1::CountReport& proto);

worker::v1::CalibrationReport ToWire(const CalibrationReport& report);
absl::StatusOr<CalibrationReport> FromWire(const worker::v1::CalibrationReport& proto);

}  // namespace tune::server
