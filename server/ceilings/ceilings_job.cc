// SPDX-License-Identifier: Apache-2.0
#include "server/ceilings/ceilings_job.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/devices/stale_ceilings.h"
#include "tuner/statistics/median.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr uint32_t kProcesses = 5;
// A load of seconds for each of eight figures: two processes tell whether they agree.
constexpr uint32_t kSustainedProcesses = 2;
constexpr double kSustainedSeconds = 2;

absl::Status CheckUsable(const DeviceView& device) {
  const DeviceStatus& status = device.status;
  if (status.state != DeviceState::kUnavailable && status.state != DeviceState::kQuarantined) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("device ", status.id, " cannot be used: ", status.message));
}

// Says who has a device that is waited for.
DeviceTurns::TellHolder TellOf(const TellStep& tell, const std::string& id) {
  return [&tell, id](const std::string& holder) {
    tell(absl::StrCat("waiting for ", id, ", which ", holder, " has"));
  };
}

// Is the suite known, all of it fresh? Sweeps measure a part of it, in one process.
bool HasFreshSuite(const DeviceView& device) {
  bool has_first_level = false;
  for (const SeenCeiling& seen : device.ceilings) {
    if (!seen.stale_reason.empty()) return false;
    has_first_level = has_first_level || seen.row.ceiling.kind == CeilingKind::kL1;
  }
  return has_first_level;
}

}  // namespace

db::CeilingRow Combine(const std::vector<Ceiling>& measured) {
  db::CeilingRow row;
  for (const Ceiling& ceiling : measured) row.process_values.push_back(ceiling.value);
  const Measurement summary = Summarise(row.process_values);
  const auto nearest = std::min_element(
      measured.begin(), measured.end(), [&](const Ceiling& a, const Ceiling& b) {
        return std::abs(a.value - summary.latency_ns_median) <
               std::abs(b.value - summary.latency_ns_median);
      });
  row.ceiling = *nearest;
  row.ceiling.value = summary.latency_ns_median;
  row.ceiling.process_count = static_cast<int>(measured.size());
  if (measured.size() > 1) {
    row.ceiling.low = summary.latency_ns_low;
    row.ceiling.high = summary.latency_ns_high;
  }
  return row;
}

absl::StatusOr<DeviceView> MeasureAllCeilings(const CeilingsOrder& order, db::Store& store,
                                              Workers& workers, Devices& devices,
                                              absl::Time deadline, const Cancelled& cancelled,
                                              const TellStep& tell) {
  if (order.processes > kCeilingProcessesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(order.processes, " processes; at most ", kCeilingProcessesMax));
  }
  ASSIGN_OR_RETURN(DeviceView device, devices.Choose(order.device, deadline));
  RETURN_IF_ERROR(CheckUsable(device));
  if (!order.remeasure && HasFreshSuite(device)) return device;
  const std::string id = device.status.id;
  ASSIGN_OR_RETURN(DeviceTurns::Turn turn, devices.turns().Take(id, "a measurement of ceilings",
                                                                cancelled, TellOf(tell, id)));
  ASSIGN_OR_RETURN(DeviceSupervisor * lease, workers.FindDevice(id));
  const uint32_t processes = order.processes == 0 ? kProcesses : order.processes;
  std::map<std::string, std::vector<Ceiling>> measured;
  std::vector<std::string> names;
  DeviceInfo info = device.status.info;
  for (uint32_t process = 0; process < processes; ++process) {
    tell(absl::StrCat("process ", process + 1, " of ", processes));
    // Between two processes those who wait for a compiler have their turn.
    ASSIGN_OR_RETURN(const CompilePause quiet, workers.Quiet(info.target, cancelled));
    const std::unique_ptr<DeviceSupervisor> twin = lease->MakeTwin("ceilings");
    const double sustained = process < kSustainedProcesses ? kSustainedSeconds : 0;
    ASSIGN_OR_RETURN(std::vector<Ceiling> ceilings, twin->CeilingSuite(sustained, cancelled));
    info = twin->Status().info;
    for (Ceiling& ceiling : ceilings) {
      std::vector<Ceiling>& same = measured[ceiling.name];
      if (same.empty()) names.push_back(ceiling.name);
      same.push_back(std::move(ceiling));
    }
  }
  std::vector<db::CeilingRow> rows;
  std::vector<Ceiling> combined;
  for (const std::string& name : names) {
    db::CeilingRow row = Combine(measured[name]);
    row.device_name = info.name;
    row.driver = info.driver;
    row.uuid = info.uuid;
    row.measured_unix_ms = absl::ToUnixMillis(absl::Now());
    combined.push_back(row.ceiling);
    rows.push_back(std::move(row));
  }
  RETURN_IF_ERROR(store.PutCeilings(rows));
  lease->SetCeilings(std::move(combined));
  return devices.Choose(id, deadline);
}

}  // namespace tune::server
