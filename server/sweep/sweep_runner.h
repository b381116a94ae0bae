// SPDX-License-Identifier: Apache-2.0
// Runs one sweep: from the stored row to the published record. Everything that finishes is stored
// at once, so that a sweep can stop anywhere and go on from there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "db/store.h"
#include "lookup/record.h"
#include "server/artifacts/artifact_folder.h"
#include "server/kernels/space_solver.h"
#include "server/records/record_book.h"
#include "server/snapshots/snapshot_writer.h"
#include "server/supervision/workers.h"
#include "server/sweep/sweeps.h"

namespace tune::server {

// Thread-safe: sweeps of different devices run at the same time.
class SweepRunner {
 public:
  // The bytes that artifacts of an owner's records may have.
  using ArtifactBytesMaxOf = std::function<int64_t(const std::string& owner)>;

  // All must outlive the runner.
  SweepRunner(db::Store& store, Workers& workers, RecordBook& records, ArtifactFolder& artifacts,
              SnapshotWriter& snapshots, SpaceSolver& solver,
              ArtifactBytesMaxOf artifact_bytes_max_of)
      : store_(store),
        workers_(workers),
        records_(records),
        artifacts_(artifacts),
        snapshots_(snapshots),
        solver_(solver),
        artifact_bytes_max_of_(std::move(artifact_bytes_max_of)) {}

  // See RunSweepJob.
  JobWork::End Run(SweepWork& work, JobContext& context);

 private:
  void KeepArtifact(absl::StatusOr<std::string> text, lookup::Record& record);

  db::Store& store_;
  Workers& workers_;
  RecordBook& records_;
  ArtifactFolder& artifacts_;
  SnapshotWriter& snapshots_;
  SpaceSolver& solver_;
  const ArtifactBytesMaxOf artifact_bytes_max_of_;
};

}  // namespace tune::server
