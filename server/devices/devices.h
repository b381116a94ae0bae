// SPDX-License-Identifier: Apache-2.0
// Which devices this host has, and how they are. Probing them starts a worker each, so it happens
// once, in the background; the workers are stopped again until a sweep needs them. A device that
// cannot be used is tried again by itself, less and less often.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "db/store.h"
#include "server/devices/device_turns.h"
#include "server/devices/stale_ceilings.h"
#include "server/supervision/device_supervisor.h"
#include "server/supervision/workers.h"

namespace tune::server {

struct DeviceView {
  DeviceStatus status;
  std::string compilers;  // for it, of each language: "NVRTC 13.0.88, nvJitLink 13.0"; may be empty
  std::vector<LanguageCompiler> languages;  // what compiles each; filled in by AddLanguages
  std::vector<SeenCeiling> ceilings;
  std::vector<v1::WorkerWalls> walls;  // of what runs and compiles for it, where they were tried
  absl::Time next_try = absl::InfiniteFuture();  // of one that cannot be used
};

// kWhenAsked: inside a program that soon ends, which tries no device again.
enum class ProbeTime { kAtOnce, kWhenAsked };

// Between two tries of a device that cannot be used: each twice as long as the one before.
struct RetryPauses {
  absl::Duration first = absl::Seconds(10);
  absl::Duration longest = absl::Minutes(10);
};

// Thread-safe. Calls with a deadline wait for the probe: UNAVAILABLE if it is not done by then.
class Devices {
 public:
  // Both must outlive this.
  Devices(Workers& workers, db::Store& store, ProbeTime when, RetryPauses pauses = {});
  ~Devices() { Stop(); }

  absl::StatusOr<std::vector<DeviceView>> List(absl::Time deadline,
                                               const Cancelled& cancelled = {}) const;
  // The device of an id; of an empty id, the first GPU that is healthy or suspect, else the CPU.
  // NOT_FOUND names the devices there are.
  absl::StatusOr<DeviceView> Choose(const std::string& id, absl::Time deadline,
                                    const Cancelled& cancelled = {}) const;
  // Asks the programs that compile for a device, which may have to be started.
  void AddLanguages(DeviceView& view, const Cancelled& cancelled = {}) const;
  // The devices as they are known now, without waiting; those not probed yet have no name. Ceilings
  // may be those of the last change of a state. Never null.
  std::shared_ptr<const std::vector<DeviceStatus>> Known() const;
  // Another number whenever a device or its state may be another in Known.
  uint64_t version() const;

  // Ceilings are measured once per device and driver, and again when a trial comes out above them
  // or they are stale. Gives an open supervisor those that the store has fresh of this very device,
  // and no others; what the supervisor has measured itself is kept first.
  void RestoreCeilings(DeviceSupervisor& supervisor) const;
  // Stores what a supervisor has measured and the store does not have yet.
  absl::Status KeepCeilings(DeviceSupervisor& supervisor) const;

  // A measurement on a device needs the device's turn first.
  DeviceTurns& turns() { return turns_; }

  // Tries a device at once, in its turn, unless it is healthy; of an empty id, every one that is
  // not. Gives those tried as they are then. NOT_FOUND; CANCELLED.
  absl::StatusOr<std::vector<DeviceView>> Retry(const std::string& id, absl::Time deadline,
                                                const Cancelled& cancelled) const;

  // Ends the probe and the tries.
  void Stop();

 private:
  // When a device that cannot be used is tried next.
  struct NextTry {
    absl::Time at;  // as SteadyNow() counts
    absl::Duration pause;
  };

  void StartProbe() const;  // REQUIRES: mutex_ is held
  void Probe() const;
  // A device's first try, in its turn. A job that has the turn opens the device itself.
  void ProbeOne(DeviceSupervisor& supervisor) const;
  // Opens a device and closes it again. The caller has its turn.
  absl::Status Try(DeviceSupervisor& supervisor) const;
  // Asks for the versions of what compiles for a device.
  void NoteCompilers(const DeviceSupervisor& supervisor) const;
  void TryAgain() const;  // until Stop
  void TryWhatIsDue() const;
  // Plans the next try after one, or none.
  void Plan(const DeviceSupervisor& supervisor, bool usable, absl::Duration pause) const;
  DeviceView ViewOf(const DeviceSupervisor& supervisor) const;
  // UNAVAILABLE after Stop; CANCELLED if `cancelled` says so.
  absl::Status AwaitProbe(absl::Time deadline, const Cancelled& cancelled) const;

  Workers& workers_;
  db::Store& store_;
  const ProbeTime when_;
  const RetryPauses pauses_;
  mutable DeviceTurns turns_;
  std::atomic<bool> stopping_ = false;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  // Guarded by mutex_; mutable because asking for a device may be what starts the probe.
  mutable bool probed_ = false;
  mutable std::map<std::string, std::string> compilers_;  // by device id, as in its view
  mutable std::map<std::string, NextTry> next_tries_;     // likewise
  mutable std::thread thread_;
  mutable std::mutex known_mutex_;
  // Guarded by known_mutex_: what Known gave last, and the version it was asked at.
  mutable std::shared_ptr<const std::vector<DeviceStatus>> known_;
  mutable uint64_t known_version_ = 0;
};

}  // namespace tune::server
