// SPDX-License-Identifier: Apache-2.0
// Counts kernels whose counts are known, to learn how a device's counters count.
#pragma once

#include <string>

#include "db/device_store.h"
#include "server/devices/devices.h"
#include "server/jobs/job.h"
#include "server/jobs/job_kinds.h"
#include "server/supervision/workers.h"

namespace tune::server {

// Its result is a v1::Calibration, stored if all kernels pass. FAILED_PRECONDITION: this host
// cannot count. DATA_LOSS: a known kernel was counted wrong.
class CalibrationJob : public JobWork {
 public:
  // Both must outlive the job.
  CalibrationJob(db::DeviceStore& store, Workers& workers) : store_(store), workers_(workers) {}

  End Run(JobContext& context) override { return {.status = Calibrate(context)}; }
  std::string Name() const override { return "a calibration"; }

 private:
  absl::Status Calibrate(JobContext& context);

  db::DeviceStore& store_;
  Workers& workers_;
};

// All must outlive the kind.
JobKind CalibrationKind(db::DeviceStore& store, Workers& workers, const Devices& devices);

}  // namespace tune::server
