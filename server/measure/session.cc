// SPDX-License-Identifier: Apache-2.0
#include "server/measure/session.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/contained.h"
#include "base/status_macros.h"
#include "tuner/device_profile.h"

namespace tune::server {

SamplePolicy LegPolicy(const std::string& target, CacheMode cache_mode, double leg_seconds) {
  SamplePolicy policy = With(cache_mode, ProfileOfTarget(target).leg);
  if (leg_seconds > 0) policy.seconds_max = leg_seconds;
  return policy;
}

DeviceSession::DeviceSession(DeviceSupervisor& device, const Compilers& compilers,
                             const std::string& name, size_t twins, Cancelled cancelled)
    : device_(device), compilers_(compilers), cancelled_(std::move(cancelled)) {
  for (size_t twin = 0; twin < twins; ++twin) {
    twins_.push_back(own_.emplace_back(device.MakeTwin(absl::StrCat(name, twin))).get());
  }
}

absl::Status DeviceSession::Renew(const std::vector<size_t>& twins) {
  Close();
  std::vector<std::future<absl::Status>> opening;
  for (const size_t twin : twins) {
    opening.push_back(std::async(std::launch::async, [this, twin] {
      return Contained([&] { return twins_[twin]->Open(cancelled_); });
    }));
  }
  absl::Status status;
  for (std::future<absl::Status>& opened : opening) status.Update(opened.get());
  return status;
}

void DeviceSession::Close() {
  retiring_.clear();  // each waits
  device_.Close();    // one more process on the device would be a stranger there
  for (DeviceSupervisor* twin : twins_) twin->Close();
}

// Ending a process takes the driver as long as a round takes.
void DeviceSession::Retire(size_t twin) {
  if (is_full_) return twins_[twin]->Close();
  retiring_.push_back(
      std::async(std::launch::async, [&retired = *twins_[twin]] { retired.Close(); }));
}

absl::StatusOr<CompilePause> DeviceSession::Quiet() {
  return compilers_.PauseHost(device_.Status().info.target, cancelled_);
}

absl::Status DeviceSession::Prepare(size_t twin, const ProblemPlan& problem,
                                    const std::string& reference_binary, uint64_t seed,
                                    IfFull if_full) {
  std::optional<ProblemPlan> complete;  // a copy only if something is missing: files are large
  if (!problem.host_reference.entries.empty()) {
    complete = problem;
    RETURN_IF_ERROR(compilers_.ComputeReference(*complete, seed, cancelled_));
  }
  const ProblemPlan& plan = complete ? *complete : problem;
  const absl::Status prepared = twins_[twin]->Prepare(plan, reference_binary, seed, cancelled_);
  if (!absl::IsResourceExhausted(prepared) || if_full == IfFull::kFail) return prepared;
  is_full_ = true;
  Close();
  return twins_[twin]->Prepare(plan, reference_binary, seed, cancelled_);
}

absl::StatusOr<Leg> DeviceSession::Measure(size_t twin, const RunRequest& request) {
  DeviceSupervisor& supervisor = *twins_[twin];
  const uint64_t restarts = supervisor.Status().worker_restarts;
  ASSIGN_OR_RETURN(RunReport report, supervisor.Run(request, cancelled_));
  return Leg{std::move(report), supervisor.Status().worker_restarts != restarts};
}

absl::StatusOr<RunReport> DeviceSession::Judge(size_t twin,
                                               const std::vector<BufferFile>& outputs) {
  return twins_[twin]->Judge(outputs, cancelled_);
}

absl::StatusOr<std::vector<Ceiling>> DeviceSession::MeasureCeilings(size_t twin,
                                                                    double sustained_seconds) {
  return twins_[twin]->CeilingSuite(sustained_seconds, cancelled_);
}

}  // namespace tune::server
