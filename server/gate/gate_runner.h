// SPDX-License-Identifier: Apache-2.0
// Runs a gate: compiles both revisions of every kernel, measures round after round until the
// decision asks for no more, and stores everything on the way.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "db/store.h"
#include "server/gate/gate_job.h"
#include "server/jobs/job.h"
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

using TellGateStep = std::function<void(const GateStep&)>;

// Runs a gate on the context's device and returns the run's id; verdicts are in the store. Both
// must outlive the call. CANCELLED once the context says so.
absl::StatusOr<int64_t> RunGate(db::Store& store, Workers& workers, GateJob job,
                                JobContext& context, const TellGateStep& tell);

}  // namespace tune::server
