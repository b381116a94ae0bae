// SPDX-License-Identifier: Apache-2.0
// Runs one sweep: from the stored row to the published record. Everything that finishes is stored
// at once, so that a sweep can stop anywhere and go on from there.
#pragma once

#include "db/store.h"
#include "server/artifacts/artifact_folder.h"
#include "server/supervision/workers.h"
#include "server/records/record_book.h"
#include "server/kernels/space_solver.h"
#include "server/snapshots/snapshot_writer.h"
#include "server/sweep/sweeps.h"

namespace tune::server {

// Thread-safe: sweeps of different devices run at the same time.
class SweepRunner {
 public:
  // All must outlive the runner.
  SweepRunner(db::Store& store, Workers& workers, RecordBook& records, ArtifactFolder& artifacts,
              SnapshotWriter& snapshots, SpaceSolver& solver)
      : store_(store),
        workers_(workers),
        records_(records),
        artifacts_(artifacts),
        snapshots_(snapshots),
        solver_(solver) {}

  // See RunSweepJob.
  JobWork::End Run(SweepWork& work, JobContext& context);

 private:
  void KeepArtifact(absl::StatusOr<std::string> text, db::RecordRow& record);

  db::Store& store_;
  Workers& workers_;
  RecordBook& records_;
  ArtifactFolder& artifacts_;
  SnapshotWriter& snapshots_;
  SpaceSolver& solver_;
};

}  // namespace tune::server
