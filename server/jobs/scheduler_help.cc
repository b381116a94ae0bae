// SPDX-License-Identifier: Apache-2.0
// Help for a job that runs: the time of its further devices.
#include <spdlog/spdlog.h>

#include "base/contained.h"
#include "base/steady_time.h"
#include "server/jobs/scheduler.h"
#include "server/supervision/acting_for.h"

namespace tune::server {

bool Scheduler::CanHelp(const Entry& entry, const std::string& device_id) const {
  return entry.running && !entry.job->control.stop && !entry.cannot_help.contains(device_id) &&
         entry.job->work().wants_help();
}

void Scheduler::Help(const std::shared_ptr<Job>& job, const std::string& device_id,
                     Device& device) {
  const ActingFor acting({.name = job->owner()});
  const WorkingOn working({.id = job->id(), .device_id = device_id});
  const absl::StatusOr<DeviceTurns::Turn> turn =
      turns_.Take(device_id, job->work().Name(), [&] { return device.leave || job->control.stop; });
  if (!turn.ok()) return;
  spdlog::info("job {}: {} has the help of {}", job->id(), job->work().Name(), device_id);
  if (care_.before) care_.before(device_id);
  const absl::Time begin = SteadyNow();
  StartCharging(*job, device_id, begin);
  JobContext context(*job, device_id, care_.quiet, device.leave);
  const absl::Status helped = Contained([&] { return job->work().Help(context); });
  StopCharging(*job, device_id, begin, SteadyNow());
  if (care_.after) care_.after(device_id);
  if (!helped.ok()) {
    spdlog::warn("job {}: {} helps no more: {}", job->id(), device_id, helped.ToString());
  } else if (device.leave) {
    return;  // it may help again
  }
  MutexLock lock(mutex_);
  if (const auto it = live_.find(job->id()); it != live_.end()) {
    it->second.cannot_help.insert(device_id);
  }
}

void Scheduler::EndHelp(int64_t job_id) {
  for (auto& [id, device] : devices_) {
    if (device.helps && device.running == job_id) device.leave = true;
  }
}

}  // namespace tune::server
