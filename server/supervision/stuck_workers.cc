// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/stuck_workers.h"

#include <utility>

namespace tune::server {

void StuckWorkers::End(std::unique_ptr<WorkerProcess> worker) {
  if (worker != nullptr && !worker->Kill()) Keep(std::move(worker));
}

void StuckWorkers::Keep(std::unique_ptr<WorkerProcess> worker) {
  MutexLock lock(mutex_);
  workers_.push_back(std::move(worker));
}

pid_t StuckWorkers::First() {
  MutexLock lock(mutex_);
  std::erase_if(workers_, [](const auto& worker) { return worker->Gone(); });
  return workers_.empty() ? 0 : workers_[0]->pid();
}

}  // namespace tune::server
