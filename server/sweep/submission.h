// SPDX-License-Identifier: Apache-2.0
// Checks what a client asks for before anything is stored: a sweep that is accepted can run.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "db/store.h"
#include "server/access/principal.h"
#include "server/devices/devices.h"
#include "server/kernels/catalogue.h"
#include "server/kernels/space_solver.h"
#include "server/sweep/sweep_view.h"
#include "tune/v1/kernel.pb.h"
#include "tune/v1/sweep.pb.h"

namespace tune::server {

// How long measuring the best again may take beyond a budget in seconds: as long as that, but no
// less than what a few rounds take and no more than what they need. 0 without such a budget: then
// it ends when the winner is settled.
double ConfirmSecondsMax(const db::SweepRow& sweep);

struct Submission {
  db::KernelRow kernel;
  db::SweepRow sweep;
  SearchOptions search;
  std::vector<std::string> device_ids;  // that it may run on, the preferred first
  uint64_t space_size = 0;
  std::vector<std::string> warnings;  // of the source; the sweep runs all the same
};

// Waits until the devices are known, at most until `deadline`, and for the space. Errors are those
// of ResolveWorkload and SpaceSolver, and INVALID_ARGUMENT for a strategy, budget or rule that
// there is not. CANCELLED if `cancelled` says so.
absl::StatusOr<Submission> CheckSubmission(const v1::SubmitSweepRequest& request,
                                           const Catalogue& catalogue, const Devices& devices,
                                           SpaceSolver& solver, absl::Time deadline,
                                           const Cancelled& cancelled);

// Bounds the budget of a principal whose jobs may have a device for at most `most`.
// RESOURCE_EXHAUSTED: more was asked for. A sweep without a budget in seconds gets that one.
absl::Status CheckBudgetWithin(absl::Duration most, const v1::Budget& budget);
void BoundBudget(absl::Duration most, db::SweepRow& sweep);

// Sets the owner and the name space of a sweep. A kernel that a submitter brought, and the
// submitter's idempotency keys, are in the submitter's name space; a kernel of the catalogue is
// shared.
void SetOwner(const Principal& principal, const v1::SubmitSweepRequest& request,
              db::SweepRow& sweep);

// Fills in the strategy and budget that were not asked for: everything if that is at most 4096
// configs, else 1000 of them by the default strategy; on the CPU, where one launch may take a
// second, what can be tried in a minute.
void ChooseStrategy(uint64_t space_size, db::SweepRow& sweep);

// Configs a sweep will try at most.
uint64_t PlannedTrials(const db::SweepRow& sweep, uint64_t space_size);

}  // namespace tune::server
