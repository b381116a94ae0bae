// SPDX-License-Identifier: Apache-2.0
// Workers that are still there although they were killed: a call into a driver may be beyond all
// signals. What such a process does to its device nobody knows, so it keeps the device out of use.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <vector>

#include "server/supervision/worker_process.h"

namespace tune::server {

// Thread-safe. Shared by all supervisors of a device.
class StuckWorkers {
 public:
  // Kills a worker, and keeps it if that does not end it. Null: nothing to do.
  void End(std::unique_ptr<WorkerProcess> worker);
  // Keeps a worker until it is over.
  void Keep(std::unique_ptr<WorkerProcess> worker);
  // The process id of one that is still there; 0: there is none. Never waits.
  pid_t First();

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<WorkerProcess>> workers_;  // guarded by mutex_
};

}  // namespace tune::server
