// SPDX-License-Identifier: Apache-2.0
// The results of trying the walls of each worker program, and the decision whether its workers may
// run kernels.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "server/supervision/worker_process.h"
#include "tune/v1/walls.pb.h"

namespace tune::server {

// Thread-safe.
class WallBook {
 public:
  // `folder` must be one that no worker may reach; a file is planted in it, which the trials
  // attempt to read. `weak_allowed`: the operator lets kernels run with walls missing.
  WallBook(std::string folder, bool weak_allowed);

  // Checks whether a worker of this program may be used. `said_missing` is the worker's own report.
  // UNAVAILABLE if walls are missing and that is not allowed; says which, and what to do.
  absl::Status Permit(const std::string& program, const std::string& said_missing) const;
  // Whether the program was tried. If not, pass a worker to Try before others are used.
  bool Knows(const std::string& program) const;
  // Has the worker attempt what its walls must prevent, and ends it. CANCELLED; otherwise OK, also
  // if walls are missing or the trial failed, which Permit then reports.
  absl::Status Try(const std::string& program, WorkerProcess& worker, const Cancelled& cancelled);

  bool weak_allowed() const { return weak_allowed_; }
  // The walls of one program; nullopt if it was not tried.
  std::optional<v1::WorkerWalls> Of(const std::string& program) const;
  // The walls of all programs that were tried, by name.
  std::vector<v1::WorkerWalls> All() const;

 private:
  const std::string planted_;
  const bool weak_allowed_;
  Mutex trial_mutex_;  // one trial at a time
  mutable Mutex mutex_;
  std::map<std::string, v1::WorkerWalls> walls_ ABSL_GUARDED_BY(mutex_);  // by program
};

// "files: it could read the daemon's files; calls: ..."; empty if all walls stand.
std::string MissingWalls(const v1::WorkerWalls& walls);

}  // namespace tune::server
