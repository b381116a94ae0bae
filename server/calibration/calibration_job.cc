// SPDX-License-Identifier: Apache-2.0
#include "server/calibration/calibration_job.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/ceilings/ceilings_job.h"
#include "tuner/counters/calibration.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

absl::Status CheckUsable(const DeviceView& device) {
  const DeviceStatus& status = device.status;
  if (status.state != DeviceState::kUnavailable && status.state != DeviceState::kQuarantined) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("device ", status.id, " cannot be used: ", status.message));
}

// Says who has a device that is waited for.
DeviceTurns::TellHolder TellOf(const TellStep& tell, const std::string& id) {
  return [&tell, id](const std::string& holder) {
    tell(absl::StrCat("waiting for ", id, ", which ", holder, " has"));
  };
}

}  // namespace

absl::StatusOr<Calibrated> CalibrateCounters(const std::string& device_id, db::Store& store,
                                             Workers& workers, Devices& devices,
                                             absl::Time deadline, const Cancelled& cancelled,
                                             const TellStep& tell) {
  ASSIGN_OR_RETURN(DeviceView device, devices.Choose(device_id, deadline));
  RETURN_IF_ERROR(CheckUsable(device));
  const std::string id = device.status.id;
  ASSIGN_OR_RETURN(DeviceTurns::Turn turn,
                   devices.turns().Take(id, "a calibration", cancelled, TellOf(tell, id)));
  ASSIGN_OR_RETURN(std::unique_ptr<DeviceSupervisor> lease, workers.MakeCountingSupervisor(id));
  ASSIGN_OR_RETURN(const CompilePause quiet, workers.Quiet(device.status.info.target, cancelled));
  tell("counting kernels whose counts are known");
  ASSIGN_OR_RETURN(CalibrationReport report, lease->Calibrate(cancelled));
  if (!report.unavailable.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("timing only: ", report.unavailable));
  }
  const DeviceInfo info = lease->Status().info;
  Calibrated result{.row = {.device_name = info.name,
                            .chip = report.chip,
                            .driver = info.driver,
                            .uuid = info.uuid,
                            .measured_unix_ms = absl::ToUnixMillis(absl::Now()),
                            .entries = std::move(report.entries)}};
  // Of any device with this chip.
  absl::StatusOr<db::CalibrationRow> known = store.LatestCalibration("", result.row.chip);
  JudgeCalibration(result.row.entries, known.ok() ? MultipliersOf(known->entries) : Multipliers());
  result.passed = AllPassed(result.row.entries);
  if (!result.passed) return result;
  ASSIGN_OR_RETURN(result.row.id, store.AppendCalibration(result.row));
  return result;
}

}  // namespace tune::server
