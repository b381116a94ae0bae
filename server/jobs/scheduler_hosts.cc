// SPDX-License-Identifier: Apache-2.0
// The scheduler where several hosts share a store: jobs come and go by leases.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/jobs/scheduler.h"

namespace tune::server {

void Scheduler::Drop(Job& job) {
  spdlog::warn("job {}: another host has it now", job.id());
  const absl::Status status =
      absl::UnavailableError(absl::StrCat("job ", job.id(), " goes on at another host"));
  const absl::Status given = GiveResult(job, status);
  const std::shared_ptr<Job> kept = Remove(job);
  job.feed().End(given);
  ticker_.Poke();
}

void Scheduler::LeaveToOthers(int64_t id) {
  std::shared_ptr<Job> job;
  {
    MutexLock lock(mutex_);
    const auto it = live_.find(id);
    if (it == live_.end()) return;
    it->second.job->control.stop = true;
    if (it->second.running) return;  // its end cannot be stored, and so is its drop
    it->second.running = true;       // this call drops it
    job = it->second.job;
  }
  Drop(*job);
}

std::vector<int64_t> Scheduler::live_ids() const {
  MutexLock lock(mutex_);
  std::vector<int64_t> ids;
  for (const auto& [id, entry] : live_) ids.push_back(id);
  return ids;
}

bool Scheduler::IsIdle(const std::string& device_id) const {
  MutexLock lock(mutex_);
  if (draining_ || stopping_) return false;
  const auto device = devices_.find(device_id);
  if (device != devices_.end() && device->second.running != 0) return false;
  return std::none_of(live_.begin(), live_.end(), [&](const auto& one) {
    return !one.second.running && IsFor(*one.second.job, device_id);
  });
}

}  // namespace tune::server
