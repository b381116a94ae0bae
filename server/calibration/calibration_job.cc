// SPDX-License-Identifier: Apache-2.0
#include "server/calibration/calibration_job.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "server/calibration/calibration_convert.h"
#include "server/workload/workload.h"
#include "tuner/counters/calibration.h"

namespace tune::server {

JobKind CalibrationKind(db::DeviceStore& store, Workers& workers, const Devices& devices) {
  return MakeJobKind<v1::SubmitCalibrationRequest>(
      db::JobKind::kCalibration, "a calibration",
      [&](const v1::SubmitCalibrationRequest& request,
          const Asker& asker) -> absl::StatusOr<AskedJob> {
        ASSIGN_OR_RETURN(const DeviceChoice choice,
                         ChooseDevice(request.device(), devices, asker.deadline, asker.cancelled));
        return AskedJob{.subject = choice.view.status.info.name,
                        .devices = choice.ids,
                        .work = std::make_shared<CalibrationJob>(store, workers)};
      });
}

absl::Status CalibrationJob::Calibrate(JobContext& context) {
  ASSIGN_OR_RETURN(std::unique_ptr<DeviceSupervisor> device,
                   workers_.MakeCountingSupervisor(context.device_id()));
  ASSIGN_OR_RETURN(const CompilePause quiet, context.Quiet());
  context.Say("counting kernels whose counts are known");
  ASSIGN_OR_RETURN(CalibrationReport report, device->Calibrate(context.cancelled()));
  if (!report.unavailable.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("timing only: ", report.unavailable));
  }
  const DeviceInfo info = device->Status().info;
  db::CalibrationRow row{.device_name = info.name,
                         .chip = report.chip,
                         .driver = info.driver,
                         .uuid = info.uuid,
                         .measured_unix_ms = absl::ToUnixMillis(absl::Now()),
                         .entries = std::move(report.entries)};
  // The calibration of any device with this chip counts.
  const absl::StatusOr<db::CalibrationRow> known = store_.LatestCalibration("", row.chip);
  JudgeCalibration(row.entries, known.ok() ? MultipliersOf(known->entries) : Multipliers());
  const bool passed = AllPassed(row.entries);
  if (passed) {
    ASSIGN_OR_RETURN(row.id, store_.AppendCalibration(row));
  }
  context.feed().AddResult(std::make_shared<v1::Calibration>(ToProto(row)));
  if (passed) return absl::OkStatus();
  return absl::DataLossError(
      "a known kernel was counted wrong: the counters of this device are not to be relied on");
}

}  // namespace tune::server
