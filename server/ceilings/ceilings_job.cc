// SPDX-License-Identifier: Apache-2.0
#include "server/ceilings/ceilings_job.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "server/devices/device_convert.h"
#include "server/devices/stale_ceilings.h"
#include "server/workload/workload.h"
#include "tuner/statistics/median.h"

namespace tune::server {
namespace {

constexpr absl::Duration kProbeCap = absl::Seconds(60);
constexpr uint32_t kProcesses = 5;
constexpr uint32_t kProcessesMax = 20;
// A load of seconds for each of eight figures: two processes tell whether they agree.
constexpr uint32_t kSustainedProcesses = 2;
constexpr double kSustainedSeconds = 2;

}  // namespace

JobKind CeilingsKind(db::DeviceStore& store, Workers& workers, const Devices& devices) {
  return MakeJobKind<v1::SubmitCeilingsRequest>(
      db::JobKind::kCeilings, "a measurement of ceilings",
      [&](const v1::SubmitCeilingsRequest& request,
          const Asker& asker) -> absl::StatusOr<AskedJob> {
        if (request.processes() > kProcessesMax) {
          return absl::InvalidArgumentError(
              absl::StrCat(request.processes(), " processes; at most ", kProcessesMax));
        }
        ASSIGN_OR_RETURN(const DeviceChoice choice,
                         ChooseDevice(request.device(), devices, asker.deadline, asker.cancelled));
        AskedJob asked{.subject = choice.view.status.info.name, .devices = choice.ids};
        if (!request.remeasure() && HasFreshSuite(choice.view)) {
          asked.result = std::make_shared<v1::Device>(ToProto(choice.view));
        } else {
          asked.work = std::make_shared<CeilingsJob>(store, workers, devices, request.processes());
        }
        return asked;
      });
}

bool HasFreshSuite(const DeviceView& device) {
  bool has_first_level = false;
  for (const SeenCeiling& seen : device.ceilings) {
    if (seen.stale()) return false;
    has_first_level = has_first_level || seen.row.ceiling.kind == CeilingKind::kL1;
  }
  return has_first_level;
}

db::CeilingRow Combine(const std::vector<Ceiling>& measured) {
  db::CeilingRow row;
  for (const Ceiling& ceiling : measured) row.process_values.push_back(ceiling.value);
  const Measurement summary = Summarise(row.process_values);
  const auto nearest =
      std::min_element(measured.begin(), measured.end(), [&](const Ceiling& a, const Ceiling& b) {
        return std::abs(a.value - summary.latency_ns_median) <
               std::abs(b.value - summary.latency_ns_median);
      });
  row.ceiling = *nearest;
  row.ceiling.value = summary.latency_ns_median;
  row.ceiling.process_count = static_cast<int>(measured.size());
  if (measured.size() > 1) {
    row.ceiling.low = summary.latency_ns_low;
    // The spread that a process saw within itself is not less for having been seen five times.
    row.ceiling.high = std::max(summary.latency_ns_high, nearest->high);
  }
  return row;
}

absl::StatusOr<std::vector<db::CeilingRow>> MeasureSuite(
    Session& session, uint32_t processes, const std::function<void(const std::string&)>& say) {
  std::map<std::string, std::vector<Ceiling>> measured;
  std::vector<std::string> names;
  for (uint32_t process = 0; process < processes; ++process) {
    say(absl::StrCat("process ", process + 1, " of ", processes));
    // Compiles that wait run between two processes.
    ASSIGN_OR_RETURN(const CompilePause quiet, session.Quiet());
    RETURN_IF_ERROR(session.Renew({0}));
    const double sustained = process < kSustainedProcesses ? kSustainedSeconds : 0;
    ASSIGN_OR_RETURN(std::vector<Ceiling> ceilings, session.MeasureCeilings(0, sustained));
    for (Ceiling& ceiling : ceilings) {
      std::vector<Ceiling>& same = measured[ceiling.name];
      if (same.empty()) names.push_back(ceiling.name);
      same.push_back(std::move(ceiling));
    }
  }
  std::vector<db::CeilingRow> rows;
  for (const std::string& name : names) rows.push_back(Combine(measured[name]));
  return rows;
}

absl::Status CeilingsJob::Measure(JobContext& context) {
  const Cancelled cancelled = context.cancelled();
  ASSIGN_OR_RETURN(DeviceSupervisor * device, workers_.FindDevice(context.device_id()));
  if (device->Status().info.target.empty()) RETURN_IF_ERROR(device->Open(cancelled));
  DeviceSession session(*device, workers_.compilers(), "ceilings", 1, cancelled);
  ASSIGN_OR_RETURN(std::vector<db::CeilingRow> rows,
                   MeasureSuite(session, processes_ == 0 ? kProcesses : processes_,
                                [&](const std::string& progress) { context.Say(progress); }));
  const DeviceInfo info = device->Status().info;
  std::vector<Ceiling> combined;
  for (db::CeilingRow& row : rows) {
    row.device_name = info.name;
    row.driver = info.driver;
    row.uuid = info.uuid;
    row.measured_unix_ms = absl::ToUnixMillis(absl::Now());
    combined.push_back(row.ceiling);
  }
  RETURN_IF_ERROR(store_.PutCeilings(rows));
  device->SetCeilings(std::move(combined));
  ASSIGN_OR_RETURN(const DeviceView view,
                   devices_.Choose(context.device_id(), SteadyNow() + kProbeCap, cancelled));
  context.feed().AddResult(std::make_shared<v1::Device>(ToProto(view)));
  return absl::OkStatus();
}

}  // namespace tune::server
