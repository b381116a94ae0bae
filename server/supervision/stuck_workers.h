// SPDX-License-Identifier: Apache-2.0
// Workers that still exist although they were killed: a call into a driver may ignore all signals.
// Such a process may still use its device, so it keeps the device out of use.
#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "server/supervision/worker_process.h"

namespace tune::server {

// Thread-safe. Shared by all supervisors of a device.
class StuckWorkers {
 public:
  // Kills a worker, and keeps it if it does not end. Null: does nothing.
  void End(std::unique_ptr<WorkerProcess> worker);
  // Keeps a worker until it ends.
  void Keep(std::unique_ptr<WorkerProcess> worker);
  // The process id of a worker that still exists; 0 if there is none. Never waits.
  pid_t First();

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<WorkerProcess>> workers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tune::server
