// SPDX-License-Identifier: Apache-2.0
// Checks a request for a sweep before anything is stored: an accepted sweep can run.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "db/kernel_store.h"
#include "db/sweep_store.h"
#include "server/access/principal.h"
#include "server/devices/devices.h"
#include "server/kernels/catalogue.h"
#include "server/kernels/space_solver.h"
#include "server/sweep/sweep_view.h"
#include "tune/v1/kernel.pb.h"
#include "tune/v1/sweep.pb.h"

namespace tune::server {

// The `device` of a request for one sweep on all equal devices.
inline constexpr char kAllDevices[] = "all";

// The time that measuring the best again may take beyond a budget in seconds: as long as the
// budget, but no less than a few rounds take and no more than they need. 0 without such a budget:
// it then ends when the winner is settled.
double ConfirmSecondsMax(const db::SweepRow& sweep);

struct Submission {
  db::KernelRow kernel;
  db::SweepRow sweep;
  SearchOptions search;
  std::vector<std::string> device_ids;  // that it may run on, the preferred first
  uint64_t space_size = 0;
  std::vector<std::string> warnings;  // of the source; the sweep runs all the same
};

// Waits for the devices to be known, at most until `deadline`, and for the space. Errors are those
// of ResolveWorkload and SpaceSolver, and INVALID_ARGUMENT for an unknown strategy, budget or rule.
// CANCELLED if `cancelled` says so.
absl::StatusOr<Submission> CheckSubmission(const v1::SubmitSweepRequest& request,
                                           const Catalogue& catalogue, const Devices& devices,
                                           SpaceSolver& solver, absl::Time deadline,
                                           const Cancelled& cancelled);

// Checks a budget against `most`, the time that a job of the principal may have a device.
// RESOURCE_EXHAUSTED: the request has more. A sweep without a budget in seconds gets `most`.
absl::Status CheckBudgetWithin(absl::Duration most, const v1::Budget& budget);
void BoundBudget(absl::Duration most, db::SweepRow& sweep);

// Sets the owner and the name space of a sweep. A kernel that a submitter brought, and the
// submitter's idempotency keys, are in the submitter's name space; a kernel of the catalogue is
// shared.
void SetOwner(const Principal& principal, const v1::SubmitSweepRequest& request,
              db::SweepRow& sweep);

// Chooses the strategy and budget if the request has none: all configs if there are at most 4096,
// else 1000 of them by the default strategy; on the CPU, where one launch may take a second, as
// many as fit in a minute.
void ChooseStrategy(uint64_t space_size, db::SweepRow& sweep);

// The most configs that a sweep will try.
uint64_t PlannedTrials(const db::SweepRow& sweep, uint64_t space_size);

}  // namespace tune::server
