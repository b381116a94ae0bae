// SPDX-License-Identifier: Apache-2.0
// Runs one sweep: from the stored row to the published record. Everything that finishes is stored
// at once, so that a sweep can stop anywhere and go on from there.
#pragma once

#include "db/store.h"
#include "server/devices/devices.h"
#include "server/supervision/workers.h"
#include "server/records/record_book.h"
#include "server/kernels/space_solver.h"
#include "server/sweep/sweep_feed.h"
#include "server/sweep/sweep_queue.h"
#include "server/sweep/sweep_view.h"

namespace tune::server {

// Thread-safe: sweeps of different devices run at the same time.
class SweepRunner {
 public:
  // All must outlive the runner.
  SweepRunner(db::Store& store, Workers& workers, Devices& devices, RecordBook& records,
              SpaceSolver& solver)
      : store_(store), workers_(workers), devices_(devices), records_(records), solver_(solver) {}

  // Never fails as a call: what goes wrong is the sweep's state and message. See RunSweepJob.
  SweepOutcome Run(SweepView view, SweepFeed& feed, const SweepControl& control);

 private:
  db::Store& store_;
  Workers& workers_;
  Devices& devices_;
  RecordBook& records_;
  SpaceSolver& solver_;
};

}  // namespace tune::server
