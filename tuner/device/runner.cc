// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/runner.h"

namespace tune {

absl::StatusOr<std::vector<Ceiling>> Runner::MeasureCeilingSuite(double) {
  return MeasureCeilings();
}

absl::StatusOr<RunReport> Runner::Judge(const std::vector<BufferFile>&) {
  return absl::UnimplementedError("this device judges its own launches only");
}

absl::StatusOr<CountReport> Runner::Count(const CountRequest&) {
  return absl::UnimplementedError("this device has no counters that can be read");
}

absl::StatusOr<CalibrationReport> Runner::Calibrate() {
  return absl::UnimplementedError("this device has no counters that can be calibrated");
}

}  // namespace tune
