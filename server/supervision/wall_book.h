// SPDX-License-Identifier: Apache-2.0
// What was found out about the walls of each worker program, and whether its workers may run
// anybody's kernel.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/supervision/worker_process.h"
#include "tune/v1/walls.pb.h"

namespace tune::server {

// Thread-safe.
class WallBook {
 public:
  // `folder` is one that no worker may reach; a file is planted in it that their trials go for.
  // `weak_allowed`: the operator lets kernels run where walls are missing.
  WallBook(std::string folder, bool weak_allowed);

  // Whether a worker of this program may be used. `said_missing` is what this one says of itself.
  // UNAVAILABLE: walls are missing and that is not allowed; says which, and what to do.
  absl::Status Permit(const std::string& program, const std::string& said_missing) const;
  // Whether the program was tried. If not, a worker has to be given to Try before others are used.
  bool Knows(const std::string& program) const;
  // Has the worker attempt what its walls are to prevent, and ends it. CANCELLED; otherwise OK,
  // also if walls are missing or the trial failed: Permit tells.
  absl::Status Try(const std::string& program, WorkerProcess& worker, const Cancelled& cancelled);

  bool weak_allowed() const { return weak_allowed_; }
  // Of one program; nothing if it was not tried.
  std::optional<v1::WorkerWalls> Of(const std::string& program) const;
  // Of the programs that were tried, by name.
  std::vector<v1::WorkerWalls> All() const;

 private:
  const std::string planted_;
  const bool weak_allowed_;
  std::mutex trial_mutex_;  // one trial at a time
  mutable std::mutex mutex_;
  std::map<std::string, v1::WorkerWalls> walls_;  // by program; guarded by mutex_
};

// "files: it could read the daemon's files; calls: ..."; empty if all walls stand.
std::string MissingWalls(const v1::WorkerWalls& walls);

}  // namespace tune::server
