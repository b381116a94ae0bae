// SPDX-License-Identifier: Apache-2.0
// Measures all the ceilings of a device.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/device_store.h"
#include "server/devices/devices.h"
#include "server/jobs/job.h"
#include "server/jobs/job_kinds.h"
#include "server/measure/session.h"
#include "server/supervision/workers.h"

namespace tune::server {

// Measures the whole suite in fresh processes and stores it. Its result is a v1::Device with all
// ceilings.
class CeilingsJob : public JobWork {
 public:
  // `processes`: 0: five. All must outlive the job.
  CeilingsJob(db::DeviceStore& store, Workers& workers, const Devices& devices, uint32_t processes)
      : store_(store), workers_(workers), devices_(devices), processes_(processes) {}

  End Run(JobContext& context) override { return {.status = Measure(context)}; }
  std::string Name() const override { return "a measurement of ceilings"; }

 private:
  absl::Status Measure(JobContext& context);

  db::DeviceStore& store_;
  Workers& workers_;
  const Devices& devices_;
  const uint32_t processes_;
};

// All must outlive the kind.
JobKind CeilingsKind(db::DeviceStore& store, Workers& workers, const Devices& devices);

// Whether all ceilings of the suite are known and fresh. Sweeps measure a part of it, in one
// process.
bool HasFreshSuite(const DeviceView& device);

// Measures the suite in this many fresh processes of the session's one twin. The rows, combined of
// all processes, name no device yet. `say` is called before each process.
absl::StatusOr<std::vector<db::CeilingRow>> MeasureSuite(
    Session& session, uint32_t processes, const std::function<void(const std::string&)>& say);

// Combines the measurements of several processes to a ceiling: median and interval. REQUIRES: not
// empty, and all of the same name.
db::CeilingRow Combine(const std::vector<Ceiling>& measured);

}  // namespace tune::server
