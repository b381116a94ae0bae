// SPDX-License-Identifier: Apache-2.0
#include "server/devices.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/counters/counters_convert.h"
#include "tuner/status_macros.h"

namespace tune::server {

Devices::Devices(Workers& workers, db::Store& store, ProbeTime when)
    : workers_(workers), store_(store) {
  std::lock_guard lock(mutex_);
  if (when == ProbeTime::kAtOnce) StartProbe();
}

void Devices::StartProbe() const {
  if (thread_.joinable() || probed_ || stopping_) return;
  thread_ = std::thread([this] { Probe(); });
}

void Devices::Stop() {
  std::thread thread;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    thread.swap(thread_);
  }
  if (thread.joinable()) thread.join();
}

void Devices::Probe() const {
  const Cancelled cancelled = [this] { return stopping_.load(); };
  for (const auto& lease : workers_.devices()) {
    if (stopping_) break;
    const absl::Status opened = lease->Inspect(cancelled);
    const DeviceStatus status = lease->Status();
    if (!opened.ok()) {
      spdlog::info("device {} cannot be used: {}", lease->id(), opened.ToString());
      continue;
    }
    std::string compiler;
    if (absl::StatusOr<CompilePool*> pool = workers_.PoolFor(status.info.target); pool.ok()) {
      absl::StatusOr<CompilerInfo> info = (*pool)->Info(cancelled);
      if (info.ok()) compiler = info->version;
    }
    spdlog::info("device {}: {}, {}, compiled for with {}", lease->id(), status.info.name,
                 status.info.target, compiler.empty() ? "nothing" : compiler);
    std::lock_guard lock(mutex_);
    compilers_[lease->id()] = std::move(compiler);
  }
  std::lock_guard lock(mutex_);
  probed_ = true;
  changed_.notify_all();
}

absl::Status Devices::AwaitProbe(absl::Time deadline) const {
  std::unique_lock lock(mutex_);
  StartProbe();
  changed_.wait_until(lock, absl::ToChronoTime(deadline), [this] { return probed_ || stopping_; });
  if (probed_) return absl::OkStatus();
  if (stopping_) return absl::UnavailableError("the daemon is stopping");
  return absl::UnavailableError("the devices are still being probed; try again");
}

DeviceView Devices::ViewOf(const DeviceLease& lease) const {
  DeviceView view{.status = lease.Status()};
  std::vector<std::string> programs = {lease.program()};
  if (absl::StatusOr<CompilePool*> pool = workers_.PoolFor(view.status.info.target); pool.ok()) {
    programs.push_back((*pool)->program());
  }
  for (const std::string& program : programs) {
    if (auto walls = workers_.walls().Of(program)) view.walls.push_back(*std::move(walls));
  }
  {
    std::lock_guard lock(mutex_);
    auto it = compilers_.find(lease.id());
    if (it != compilers_.end()) view.compiler = it->second;
  }
  const DeviceInfo& info = view.status.info;
  if (!info.name.empty()) {
    absl::StatusOr<std::vector<db::CeilingRow>> rows = store_.GetCeilings(info.name, "");
    if (rows.ok()) view.ceilings = *std::move(rows);
  }
  return view;
}

absl::StatusOr<std::vector<DeviceView>> Devices::List(absl::Time deadline) const {
  RETURN_IF_ERROR(AwaitProbe(deadline));
  std::vector<DeviceView> views;
  for (const auto& lease : workers_.devices()) views.push_back(ViewOf(*lease));
  return views;
}

absl::StatusOr<DeviceView> Devices::Choose(const std::string& id, absl::Time deadline) const {
  ASSIGN_OR_RETURN(std::vector<DeviceView> views, List(deadline));
  for (DeviceView& view : views) {
    // GPUs come first, and the CPU last.
    if (id.empty() ? MayBeDefault(view.status) : view.status.id == id) return std::move(view);
  }
  const std::string known = absl::StrJoin(
      views, ", ", [](std::string* out, const auto& view) { out->append(view.status.id); });
  return absl::NotFoundError(absl::StrCat("no device '", id, "' on this host; there is: ", known));
}

std::vector<DeviceStatus> Devices::Known() const {
  std::vector<DeviceStatus> known;
  for (const auto& lease : workers_.devices()) known.push_back(lease->Status());
  return known;
}

absl::StatusOr<std::vector<db::CeilingRow>> Devices::FreshCeilings(const DeviceInfo& info) const {
  ASSIGN_OR_RETURN(std::vector<db::CeilingRow> rows, store_.GetCeilings(info.name, info.driver));
  const absl::Time now = absl::Now();
  std::erase_if(rows,
                [&](const db::CeilingRow& row) { return !StaleReason(row, info, now).empty(); });
  return rows;
}

void Devices::RestoreCeilings(DeviceLease& lease) const {
  const DeviceStatus status = lease.Status();
  if (!status.ceilings.empty()) return;
  absl::StatusOr<std::vector<db::CeilingRow>> rows = FreshCeilings(status.info);
  if (!rows.ok()) return;
  std::vector<Ceiling> ceilings;
  for (const db::CeilingRow& row : *rows) ceilings.push_back(row.ceiling);
  lease.SetCeilings(std::move(ceilings));
}

absl::Status Devices::KeepCeilings(const DeviceLease& lease) const {
  const DeviceStatus status = lease.Status();
  ASSIGN_OR_RETURN(std::vector<db::CeilingRow> known, FreshCeilings(status.info));
  std::vector<db::CeilingRow> rows;
  for (const Ceiling& ceiling : status.ceilings) {
    const bool kept = std::any_of(known.begin(), known.end(), [&](const db::CeilingRow& row) {
      const bool lower = row.ceiling.value < ceiling.value && ceiling.kind != CeilingKind::kLaunch;
      return row.ceiling.name == ceiling.name && !lower;
    });
    if (kept) continue;
    rows.push_back({.device_name = status.info.name,
                    .driver = status.info.driver,
                    .ceiling = ceiling,
                    .measured_unix_ms = absl::ToUnixMillis(absl::Now()),
                    .uuid = status.info.uuid,
                    .process_values = {ceiling.value}});
  }
  if (rows.empty()) return absl::OkStatus();
  return store_.PutCeilings(rows);
}

}  // namespace tune::server
