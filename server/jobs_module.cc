// SPDX-License-Identifier: Apache-2.0
#include <spdlog/spdlog.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "server/job_table.h"
#include "server/modules.h"

namespace tune::server {
namespace {

constexpr char kAnotherHost[] = "another host";

// "sweep" of JOB_KIND_SWEEP.
std::string LabelOf(absl::string_view name, absl::string_view prefix) {
  return absl::AsciiStrToLower(absl::StripPrefix(name, prefix));
}

}  // namespace

Scheduler::Options JobsModule::SchedulerOptions() const {
  const ServerOptions& options = store.options;
  Scheduler::Options scheduling{
      .unfinished_max = options.limits.unfinished_jobs,
      .operator_jobs = options.limits.operator_jobs,
      .turn = absl::Seconds(options.limits.turn_seconds),
      .embedded = options.embedded,
      .jobs_max_of =
          [this](const std::string& owner) { return access.principals->JobsMaxOf(owner); },
      .may_store =
          [this](const std::string& owner) {
            return access.principals->CheckStored(owner, *store.store);
          },
      .device_time_max_of =
          [this](const std::string& owner) { return access.principals->DeviceTimeMaxOf(owner); },
      .job_time_max_of =
          [this](const std::string& owner) { return access.principals->JobTimeMaxOf(owner); },
      .is_operator =
          [this](const std::string& owner) { return access.principals->IsOperator(owner); }};
  if (Metrics* const metrics = store.metrics; metrics != nullptr) {
    scheduling.job_ended = [metrics](const db::JobRow& row) {
      metrics->CountJobEnd(
          LabelOf(v1::JobKind_Name(static_cast<v1::JobKind>(row.kind)), "JOB_KIND_"),
          LabelOf(v1::JobState_Name(static_cast<v1::JobState>(row.state)), "JOB_STATE_"));
    };
    scheduling.had_device = [metrics](const std::string& owner, const std::string& device,
                                      absl::Duration time) {
      metrics->CountDeviceTime(owner, device, time);
    };
  }
  scheduling.freed = [this] {
    if (fleet != nullptr) fleet->Poke();
  };
  // An embedded server does not try a device again, so its jobs wait for none.
  if (!options.embedded) {
    scheduling.why_out_of_use = [this](const std::string& id) {
      return WhyOutOfUse(*devices.devices->Known(), id);
    };
  }
  return scheduling;
}

DeviceCare JobsModule::Care() const {
  const auto supervisor = [this](const std::string& id) -> DeviceSupervisor* {
    return devices.workers->FindDevice(id).value_or(nullptr);
  };
  return {.before =
              [=, this](const std::string& id) {
                if (DeviceSupervisor* device = supervisor(id)) {
                  devices.devices->RestoreCeilings(*device);
                }
              },
          .after =
              [=, this](const std::string& id) {
                DeviceSupervisor* device = supervisor(id);
                if (device == nullptr) return;
                if (absl::Status kept = devices.devices->KeepCeilings(*device); !kept.ok()) {
                  spdlog::error("the ceilings of {} are not stored: {}", id, kept.ToString());
                }
              },
          .quiet = [this](const std::string& id,
                          const Cancelled& cancelled) -> absl::StatusOr<CompilePause> {
            ASSIGN_OR_RETURN(DeviceSupervisor * device, devices.workers->FindDevice(id));
            return devices.workers->compilers().PauseHost(device->Status().info.target, cancelled);
          }};
}

absl::Status JobsModule::Start() {
  const ServerOptions& options = store.options;
  if (store.use == StoreUse::kOwn && !options.embedded) {
    run_mark = std::make_unique<RunMark>(options.state_dir);
  }
  runner = std::make_unique<SweepRunner>(
      *store.store, *devices.workers, *records.records, *records.artifacts,
      *records.snapshot_writer, devices.solver, [this](const std::string& owner) {
        return access.principals->ArtifactBytesMaxOf(owner, store.options.limits.artifact_bytes);
      });
  scheduler = std::make_unique<Scheduler>(SchedulerOptions(), *store.store,
                                          devices.devices->turns(), *calls.ticker, Care());
  Sweeps::KnownDevices known_devices;
  if (!options.embedded) known_devices = [this] { return devices.devices->Known(); };
  const LeftJobRules left{.deaths_max = options.limits.job_deaths,
                          .ended_in_order = run_mark != nullptr && run_mark->ended_in_order(),
                          .embedded = options.embedded};
  const bool shared = store.store->fleet() != nullptr;
  ASSIGN_OR_RETURN(
      sweeps, Sweeps::Start({.left = left,
                             .shared = shared,
                             .other_owner = shared ? kAnotherHost : store.other_owner(),
                             .known_devices = std::move(known_devices)},
                            *store.store, *scheduler, [this](SweepWork& work, JobContext& context) {
                              return runner->Run(work, context);
                            }));
  kinds = AllKinds({devices.catalogue, *store.store, *devices.workers, *devices.devices,
                    *records.records, *sweeps, leases, *access.principals});
  RETURN_IF_ERROR(shared ? JoinFleet(left) : TakeUpLeftJobs(tools(), left));
  store.Report(calls.executors.heavy);
  return absl::OkStatus();
}

absl::Status JobsModule::JoinFleet(const LeftJobRules& rules) {
  const ServerOptions& options = store.options;
  // Who had a claimed job may have died with it.
  LeftJobRules left = rules;
  left.ended_in_order = false;
  const auto in_use = [this] {
    std::map<std::string, std::string> names;
    for (const DeviceStatus& status : *devices.devices->Known()) {
      if (!IsOutOfUse(status) && !status.info.name.empty()) names[status.id] = status.info.name;
    }
    return names;
  };
  const auto take_up = [this, left](db::JobRow job, std::vector<std::string> ids) {
    return job.kind == db::JobKind::kSweep ? sweeps->TakeUp(job.id, std::move(ids))
                                           : TakeUpJob(tools(), left, job, {job.device_id});
  };
  fleet = std::make_unique<Fleet>(
      *store.store->fleet(), *scheduler,
      db::HostRow{.name = options.host_name,
                  .state_dir = options.state_dir,
                  .address = absl::StrJoin(access.listeners.addresses, ", "),
                  .version = TUNE_VERSION},
      Fleet::Hooks{.devices = in_use, .take_up = take_up, .catch_up = [this] {
                     return records.records->CatchUp();
                   }});
  return fleet->Start();
}

void JobsModule::BeginStop() {
  if (fleet != nullptr) fleet->BeginStop();
  if (scheduler != nullptr) scheduler->BeginStop();
}

void JobsModule::Stop(absl::Duration) {
  if (scheduler != nullptr) scheduler->Stop();
  if (fleet != nullptr) fleet->Stop();
  // A server that did not come to take up the sweeps leaves the mark to the next.
  if (run_mark != nullptr && sweeps != nullptr) run_mark->EndInOrder();
}

}  // namespace tune::server
