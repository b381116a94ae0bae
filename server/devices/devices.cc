// SPDX-License-Identifier: Apache-2.0
#include "server/devices/devices.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/cancelled.h"
#include "base/contained.h"
#include "base/logged.h"
#include "base/near_name.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "server/rpc/error_detail.h"
#include "server/wire/nouns.h"
#include "tuner/device_profile.h"
#include "tuner/spelling.h"

namespace tune::server {
namespace {

// Others are of the suite alone, on some devices at least.
bool IsMeasuredBySweeps(const std::string& name) {
  static const std::set<std::string> names = {"dram_read", "dram_write",  "dram_copy", "f64", "f32",
                                              "f16",       "tensor_bf16", "tensor_f16"};
  return names.contains(name);
}

absl::string_view FamilyOf(const std::string& id) { return ProfileOfDevice(id).family; }

constexpr absl::Duration kLookEvery = absl::Seconds(1);

}  // namespace

Devices::Devices(Workers& workers, db::DeviceStore& store, ProbeTime when, RetryPauses pauses)
    : workers_(workers), store_(store), when_(when), pauses_(pauses) {
  MutexLock lock(mutex_);
  if (when == ProbeTime::kAtOnce) StartProbe();
}

void Devices::StartProbe() const {
  if (thread_.joinable() || probed_ || stopping_) return;
  for (const DeviceSupervisor* device : workers_.devices()) being_probed_.insert(device->id());
  thread_ = std::thread([this] {
    Probe();
    if (when_ == ProbeTime::kAtOnce) TryAgain();
  });
}

void Devices::Stop() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    thread.swap(thread_);
  }
  if (thread.joinable()) thread.join();
}

void Devices::Probe() const {
  std::vector<std::thread> threads;
  for (DeviceSupervisor* supervisor : workers_.devices()) {
    threads.emplace_back([this, supervisor] {
      const absl::Status probed = Contained([&] { ProbeOne(*supervisor); });
      if (!probed.ok()) spdlog::error("device {}: {}", supervisor->id(), Logged(probed));
      MutexLock lock(mutex_);
      being_probed_.erase(supervisor->id());
      changed_.notify_all();
    });
  }
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(mutex_);
  probed_ = true;
  changed_.notify_all();
}

void Devices::ProbeOne(DeviceSupervisor& supervisor) const {
  const absl::Time until = SteadyNow() + pauses_.for_jobs;
  const absl::StatusOr<DeviceTurns::Turn> turn = turns_.Take(
      supervisor.id(), "a look at what there is",
      [&] { return stopping_ || !supervisor.Status().info.name.empty() || SteadyNow() >= until; });
  if (turn.ok()) return Plan(supervisor, Try(supervisor).ok(), pauses_.first);
  // Only the device itself tells what it is compiled for.
  if (!supervisor.Status().info.name.empty()) NoteCompilers(supervisor);
  Plan(supervisor, !IsOutOfUse(supervisor.Status()), pauses_.first);
}

absl::Status Devices::Try(DeviceSupervisor& supervisor) const {
  const absl::Status opened = supervisor.Inspect([this] { return stopping_.load(); });
  if (opened.ok()) {
    NoteCompilers(supervisor);
  } else {
    spdlog::info("device {} cannot be used: {}", supervisor.id(), Logged(opened));
  }
  return opened;
}

void Devices::NoteCompilers(const DeviceSupervisor& supervisor) const {
  const DeviceInfo info = supervisor.Status().info;
  std::vector<std::string> versions;
  for (CompilePool* pool : workers_.compilers().PromptPoolsFor(info.target)) {
    const absl::StatusOr<std::vector<CompilerInfo>> known =
        pool->Compilers([this] { return stopping_.load(); });
    if (!known.ok()) continue;
    for (const CompilerInfo& compiler : *known) versions.push_back(compiler.version);
  }
  const std::string text = absl::StrJoin(versions, ", ");
  spdlog::info("device {}: {}, {}, compilers: {}", supervisor.id(), info.name, info.target,
               text.empty() ? "none" : text);
  MutexLock lock(mutex_);
  compilers_[supervisor.id()] = text;
}

void Devices::Plan(const DeviceSupervisor& supervisor, bool usable, absl::Duration pause) const {
  MutexLock lock(mutex_);
  if (usable || when_ == ProbeTime::kWhenAsked) {
    next_tries_.erase(supervisor.id());
  } else {
    pause = std::min(pause, pauses_.longest);
    next_tries_[supervisor.id()] = {SteadyNow() + pause, pause};
  }
}

void Devices::TryAgain() const {
  const absl::Duration look_every = std::min(kLookEvery, pauses_.first);
  MutexLock lock(mutex_);
  while (!changed_.wait_for(lock.native(), absl::ToChronoMilliseconds(look_every),
                            [this] { return stopping_.load(); })) {
    lock.Unlock();
    const absl::Status tried = Contained([this] { TryWhatIsDue(); });
    if (!tried.ok()) spdlog::error("devices are not tried again: {}", tried.ToString());
    lock.Lock();
  }
}

void Devices::TryWhatIsDue() const {
  for (DeviceSupervisor* supervisor : workers_.devices()) {
    if (stopping_) return;
    if (!IsOutOfUse(supervisor->Status())) {
      Plan(*supervisor, true, {});
      continue;
    }
    std::optional<NextTry> planned;
    {
      MutexLock lock(mutex_);
      const auto it = next_tries_.find(supervisor->id());
      if (it != next_tries_.end()) planned = it->second;
    }
    if (!planned) {  // it fell out of use since
      Plan(*supervisor, false, pauses_.first);
      continue;
    }
    if (SteadyNow() < planned->at) continue;
    const std::optional<DeviceTurns::Turn> turn = turns_.TryTake(supervisor->id(), "a try");
    if (!turn) continue;
    const bool usable = Try(*supervisor).ok();
    Plan(*supervisor, usable, 2 * planned->pause);
    if (usable) workers_.FindNewDevices();
  }
}

absl::StatusOr<std::vector<DeviceView>> Devices::Retry(const std::string& id, absl::Time deadline,
                                                       const Cancelled& cancelled) const {
  RETURN_IF_ERROR(AwaitProbe("", deadline, cancelled));
  workers_.FindNewDevices();
  std::vector<DeviceSupervisor*> supervisors = workers_.devices();
  if (!id.empty()) {
    ASSIGN_OR_RETURN(DeviceSupervisor * supervisor, workers_.FindDevice(id));
    supervisors = {supervisor};
  }
  std::vector<DeviceView> views;
  for (DeviceSupervisor* supervisor : supervisors) {
    if (supervisor->Status().state != DeviceState::kHealthy) {
      ASSIGN_OR_RETURN(DeviceTurns::Turn turn, turns_.Take(supervisor->id(), "a try", cancelled));
      Plan(*supervisor, Try(*supervisor).ok(), pauses_.first);
    } else if (id.empty()) {
      continue;
    }
    views.push_back(ViewOf(*supervisor));
  }
  return views;
}

absl::Status Devices::AwaitProbe(const std::string& id, absl::Time deadline,
                                 const Cancelled& cancelled) const {
  const std::vector<DeviceSupervisor*> devices = workers_.devices();
  const bool is_one = std::any_of(devices.begin(), devices.end(),
                                  [&](const auto* device) { return device->id() == id; });
  MutexLock lock(mutex_);
  StartProbe();
  const auto is_done = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return probed_ || (is_one && !being_probed_.contains(id));
  };
  while (!is_done() && !stopping_ && SteadyNow() < deadline) {
    if (cancelled && cancelled()) {
      return absl::CancelledError("cancelled while devices were being probed");
    }
    changed_.wait_for(lock.native(), kCancelPollPeriod);
  }
  if (probed_ || (is_done() && !stopping_)) return absl::OkStatus();
  if (stopping_) return absl::UnavailableError("the daemon is stopping");
  return absl::UnavailableError(
      absl::StrCat("still being probed: ", absl::StrJoin(being_probed_, ", "),
                   "; try again, or name the id of another device"));
}

DeviceView Devices::ViewOf(const DeviceSupervisor& supervisor) const {
  DeviceView view{.status = supervisor.Status()};
  std::vector<std::string> programs = {supervisor.program()};
  for (const CompilePool* pool : workers_.compilers().PoolsFor(view.status.info.target)) {
    programs.push_back(pool->program());
  }
  for (const std::string& program : programs) {
    if (auto walls = workers_.walls().Of(program)) view.walls.push_back(*std::move(walls));
  }
  {
    MutexLock lock(mutex_);
    auto it = compilers_.find(supervisor.id());
    if (it != compilers_.end()) view.compilers = it->second;
    auto next = next_tries_.find(supervisor.id());
    if (next != next_tries_.end() && IsOutOfUse(view.status)) {
      const absl::Duration left = std::max(next->second.at - SteadyNow(), absl::ZeroDuration());
      view.next_try = absl::Now() + left;
      absl::StrAppend(&view.status.message, "; it is tried again in ",
                      absl::FormatDuration(absl::Ceil(left, absl::Seconds(1))),
                      ", and at once by `tunectl device retry ", supervisor.id(), "`");
    }
  }
  const DeviceInfo& info = view.status.info;
  if (!info.name.empty()) {
    absl::StatusOr<std::vector<db::CeilingRow>> rows = store_.GetCeilings(info.name, "", info.uuid);
    if (rows.ok()) view.ceilings = Seen(*std::move(rows), info, absl::Now());
  }
  return view;
}

void Devices::AddLanguages(DeviceView& view, const Cancelled& cancelled) const {
  // A GPU without a driver has no target that is known, but can be compiled for.
  const std::string& target = view.status.info.target;
  const DeviceProfile& profile = ProfileOfDevice(view.status.id);
  view.languages = workers_.compilers().Languages(
      target.empty() ? profile.common_targets[0] : target, cancelled);
}

absl::StatusOr<std::vector<DeviceView>> Devices::List(absl::Time deadline,
                                                      const Cancelled& cancelled) const {
  RETURN_IF_ERROR(AwaitProbe("", deadline, cancelled));
  return Views();
}

std::vector<DeviceView> Devices::Views() const {
  std::vector<DeviceView> views;
  for (const DeviceSupervisor* device : workers_.devices()) views.push_back(ViewOf(*device));
  return views;
}

absl::StatusOr<DeviceView> Devices::Choose(const std::string& device, absl::Time deadline,
                                           const Cancelled& cancelled) const {
  RETURN_IF_ERROR(AwaitProbe(DeviceIdOf(device), deadline, cancelled));
  std::vector<DeviceView> views = Views();
  DeviceView* chosen = nullptr;
  std::set<std::string> known;  // ids, then names
  std::vector<std::string> ids;
  for (DeviceView& view : views) {  // GPUs come first, and the CPU last
    const DeviceStatus& status = view.status;
    if (status.id == DeviceIdOf(device)) return std::move(view);
    const bool is_named = !device.empty() && (absl::EqualsIgnoreCase(device, status.info.name) ||
                                              FamilyOf(status.id) == DeviceIdOf(device));
    const bool may_be = MayBeDefault(status) && (device.empty() || is_named);
    if (chosen == nullptr ? may_be || is_named : may_be && !MayBeDefault(chosen->status)) {
      chosen = &view;
    }
    ids.push_back(status.id);
    if (!status.info.name.empty()) known.insert(status.info.name);
  }
  if (chosen != nullptr) return std::move(*chosen);
  const std::string there_is = absl::StrCat(
      absl::StrJoin(ids, ", "), known.empty() ? "" : "; by name ", absl::StrJoin(known, ", "));
  known.insert(ids.begin(), ids.end());
  v1::ErrorDetail detail;
  detail.set_reason(v1::ERROR_REASON_NO_SUCH_DEVICE);
  detail.set_device(device);
  return WithDetail(absl::NotFoundError(
                        absl::StrCat("no device '", device, "' on this host; there is: ", there_is,
                                     DidYouMean(device, {known.begin(), known.end()}))),
                    detail);
}

std::shared_ptr<const std::vector<DeviceStatus>> Devices::Known() const {
  const uint64_t now = version();  // before it looks: what is kept is at least as new
  MutexLock lock(known_mutex_);
  if (known_ == nullptr || known_version_ != now) {
    std::vector<DeviceStatus> known;
    for (const DeviceSupervisor* device : workers_.devices()) known.push_back(device->Status());
    known_ = std::make_shared<const std::vector<DeviceStatus>>(std::move(known));
    known_version_ = now;
  }
  return known_;
}

uint64_t Devices::version() const {
  constexpr uint64_t kPrime = 1'000'003;
  uint64_t version = 1;
  for (const DeviceSupervisor* device : workers_.devices()) {
    version = version * kPrime + device->status_version();
  }
  return version;
}

void Devices::RestoreCeilings(DeviceSupervisor& supervisor) const {
  // Stores the ceilings measured since, so that the store has the newest.
  if (!KeepCeilings(supervisor).ok()) return;
  const DeviceInfo info = supervisor.Status().info;
  absl::StatusOr<std::vector<db::CeilingRow>> rows =
      store_.GetCeilings(info.name, info.driver, info.uuid);
  if (!rows.ok()) return;
  const absl::Time now = absl::Now();
  std::vector<Ceiling> ceilings;
  for (const db::CeilingRow& row : *rows) {
    if (StaleReason(row, info, now).empty()) {
      ceilings.push_back(row.ceiling);
    } else if (IsMeasuredBySweeps(row.ceiling.name)) {
      // They are measured together.
      supervisor.SetCeilings({});
      return;
    }
  }
  supervisor.SetCeilings(std::move(ceilings));
}

absl::Status Devices::KeepCeilings(DeviceSupervisor& supervisor) const {
  const DeviceStatus status = supervisor.Status();
  if (status.unsaved.empty()) return absl::OkStatus();
  std::vector<db::CeilingRow> rows;
  for (const MeasuredCeiling& measured : status.unsaved) {
    rows.push_back({.device_name = status.info.name,
                    .driver = status.info.driver,
                    .ceiling = measured.ceiling,
                    .measured_unix_ms = measured.measured_unix_ms,
                    .uuid = status.info.uuid,
                    .process_values = {measured.ceiling.value}});
  }
  RETURN_IF_ERROR(store_.PutCeilings(rows));
  supervisor.SetCeilings(status.ceilings);
  return absl::OkStatus();
}

}  // namespace tune::server
