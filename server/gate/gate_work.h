// SPDX-License-Identifier: Apache-2.0
// A gate as a job.
#pragma once

#include <string>
#include <utility>

#include "db/store.h"
#include "server/access/principals.h"
#include "server/devices/devices.h"
#include "server/gate/gate_plan.h"
#include "server/gate/gate_runner.h"
#include "server/jobs/job.h"
#include "server/jobs/job_kinds.h"
#include "server/supervision/workers.h"

namespace tune::server {

// Its steps are v1::GateProgress; its result is a v1::GateRun without kernels. Not thread-safe: one
// run.
class GateWork : public JobWork {
 public:
  // Both must outlive the work.
  GateWork(db::Store& store, Workers& workers, GatePlan plan)
      : store_(store), workers_(workers), plan_(std::move(plan)) {}

  End Run(JobContext& context) override;
  std::string Name() const override { return "a gate"; }
  // Its size is the request's, which has limits of its own.
  absl::Duration time_max() const override { return absl::InfiniteDuration(); }
  size_t source_bytes() const override { return plan_.SourceBytes(); }
  bool runs_again() const override { return false; }

 private:
  db::Store& store_;
  Workers& workers_;
  GatePlan plan_;
};

// All must outlive the kind.
JobKind GateKind(db::Store& store, Workers& workers, const Devices& devices,
                 const Principals& principals);

}  // namespace tune::server
