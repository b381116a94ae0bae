// SPDX-License-Identifier: Apache-2.0
// Runs a gate: compiles both revisions of every kernel, measures round after round until the
// decision asks for no more, and stores everything on the way.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "db/store.h"
#include "server/devices/devices.h"
#include "server/gate/gate_job.h"
#include "server/supervision/workers.h"

namespace tune::server {

struct GateStep {
  int64_t run_id = 0;
  std::string phase;
  std::string kernel;
  uint32_t rounds_done = 0;
  uint32_t rounds_planned = 0;
  double elapsed_seconds = 0;
  double remaining_seconds = 0;
};
TUNE_FIELDS(GateStep, run_id, phase, kernel, rounds_done, rounds_planned, elapsed_seconds,
            remaining_seconds);

// Thread-safe: runs of different devices go on at the same time, those of one take turns.
class GateRunner {
 public:
  // All must outlive the runner.
  GateRunner(db::Store& store, Workers& workers, Devices& devices)
      : store_(store), workers_(workers), devices_(devices) {}

  using Report = std::function<void(const GateStep&)>;
  // Returns the run's id; verdicts are in the store. CANCELLED and failures of the device are kept
  // as the run's end as well.
  absl::StatusOr<int64_t> Run(GateJob job, const Cancelled& cancelled, const Report& report);

 private:
  db::Store& store_;
  Workers& workers_;
  Devices& devices_;
};

}  // namespace tune::server
