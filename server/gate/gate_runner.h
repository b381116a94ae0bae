// SPDX-License-Identifier: Apache-2.0
// Runs a gate: compiles both revisions of every kernel, measures round after round until the
// decision asks for no more, and stores everything on the way.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "db/store.h"
#include "server/gate/gate_plan.h"
#include "server/jobs/job.h"
#include "server/supervision/workers.h"

namespace tune::server {

// What a run is at. Values are sent: do not renumber.
enum class GatePhase {
  kNone = 0,
  kCompiling = 2,
  kScreen = 3,    // every kernel
  kConfirm = 4,   // those that the screening flagged
  kRecovery = 5,  // the head's own best configs, where kernels failed
  kTiming = 6,    // the head alone, for the history
};
std::string ToText(GatePhase phase);  // "compiling"

struct GateStep {
  int64_t run_id = 0;  // 0: it has none yet
  GatePhase phase = GatePhase::kNone;
  std::string message;  // for people
  std::string kernel;
  uint32_t rounds_done = 0;
  uint32_t rounds_planned = 0;
  double elapsed_seconds = 0;
  double remaining_seconds = 0;
};
TUNE_FIELDS(GateStep, run_id, phase, message, kernel, rounds_done, rounds_planned, elapsed_seconds,
            remaining_seconds);

using TellGateStep = std::function<void(const GateStep&)>;

// Runs a gate on the context's device and returns the run's id; verdicts are in the store. Both
// must outlive the call. CANCELLED once the context says so.
absl::StatusOr<int64_t> RunGate(db::Store& store, Workers& workers, GatePlan plan,
                                JobContext& context, const TellGateStep& tell);

}  // namespace tune::server
