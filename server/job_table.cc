// SPDX-License-Identifier: Apache-2.0
#include "server/job_table.h"

#include "server/bench/bench_job.h"
#include "server/calibration/calibration_job.h"
#include "server/ceilings/ceilings_job.h"
#include "server/comparison/comparison_work.h"
#include "server/gate/gate_work.h"
#include "server/profile/profile_job.h"
#include "server/sweep/sweeps.h"

namespace tune::server {

JobKinds AllKinds(const KindTools& tools) {
  const auto& [catalogue, store, workers, devices, records, sweeps, leases, principals] = tools;
  return {SweepKind(sweeps),
          GateKind(store, workers, devices, principals),
          ProfileKind({catalogue, store, workers, devices, records}, principals),
          BenchKind({catalogue, workers, devices, records}),
          ComparisonKind({catalogue, devices, records}, store, workers, leases, principals),
          CeilingsKind(store, workers, devices),
          CalibrationKind(store, workers, devices)};
}

}  // namespace tune::server
