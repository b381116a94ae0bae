// SPDX-License-Identifier: Apache-2.0
// The devices of this host, and their states. Probing a device starts a worker, so it happens once,
// in the background, for all at the same time; the workers are stopped again until a job needs
// them. A device that cannot be used is retried, less and less often.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "db/device_store.h"
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

// kWhenAsked: for a program that soon ends, which retries no device.
enum class ProbeTime { kAtOnce, kWhenAsked };

// The pauses between tries of a device that cannot be used: each twice as long as the one before.
struct RetryPauses {
  absl::Duration first = absl::Seconds(10);
  absl::Duration longest = absl::Minutes(10);
  // The first try waits for a job that has the device's turn and has yet to open it.
  absl::Duration for_jobs = absl::Seconds(10);
};

// Thread-safe. Calls with a deadline wait for the probes, those for the id of one device for its
// probe alone: UNAVAILABLE if it is not done by then.
class Devices {
 public:
  // Both must outlive this.
  Devices(Workers& workers, db::DeviceStore& store, ProbeTime when, RetryPauses pauses = {});
  ~Devices() { Stop(); }

  absl::StatusOr<std::vector<DeviceView>> List(absl::Time deadline,
                                               const Cancelled& cancelled = {}) const;
  // The device of an id; of a name ("NVIDIA H200") or a kind ("cuda"), the first such device that
  // is healthy or suspect, else the first; if empty, the first GPU that is healthy or suspect, else
  // the CPU. NOT_FOUND names the devices there are.
  absl::StatusOr<DeviceView> Choose(const std::string& device, absl::Time deadline,
                                    const Cancelled& cancelled = {}) const;
  // Adds the compilers for the device, whose programs may have to be started.
  void AddLanguages(DeviceView& view, const Cancelled& cancelled = {}) const;
  // The devices as they are known now, without waiting; those not probed yet have no name. Ceilings
  // may be those of the last change of a state. Never null.
  std::shared_ptr<const std::vector<DeviceStatus>> Known() const;
  // A number that changes whenever Known may return other devices or states.
  uint64_t version() const;

  // Gives an open supervisor the ceilings that the store has fresh of this very device, and no
  // others; those that the supervisor has measured itself are stored first. Ceilings are measured
  // once per device and driver, and again if a trial exceeds them or they are stale.
  void RestoreCeilings(DeviceSupervisor& supervisor) const;
  // Stores the ceilings that a supervisor has measured and the store lacks.
  absl::Status KeepCeilings(DeviceSupervisor& supervisor) const;

  // A measurement on a device needs the device's turn first.
  DeviceTurns& turns() { return turns_; }

  // Tries a device at once, in its turn, unless it is healthy; an empty id tries every device that
  // is not. Returns those tried with their new states. NOT_FOUND: no such device. CANCELLED.
  absl::StatusOr<std::vector<DeviceView>> Retry(const std::string& id, absl::Time deadline,
                                                const Cancelled& cancelled) const;

  // Ends the probe and the retries.
  void Stop();

 private:
  // The time of the next try of a device that cannot be used.
  struct NextTry {
    absl::Time at;  // as SteadyNow() counts
    absl::Duration pause;
  };

  void StartProbe() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Probe() const;
  // A device's first try, in its turn. A job that has the turn opens the device itself.
  void ProbeOne(DeviceSupervisor& supervisor) const;
  // Opens a device and closes it again. The caller has its turn.
  absl::Status Try(DeviceSupervisor& supervisor) const;
  // Asks for the versions of the compilers for a device.
  void NoteCompilers(const DeviceSupervisor& supervisor) const;
  void TryAgain() const;  // until Stop
  void TryWhatIsDue() const;
  // Plans the next try after one, or none.
  void Plan(const DeviceSupervisor& supervisor, bool usable, absl::Duration pause) const;
  DeviceView ViewOf(const DeviceSupervisor& supervisor) const;
  // Waits for the probe of a device; for text that is no device's id, for those of all. UNAVAILABLE
  // after Stop; CANCELLED if `cancelled` says so.
  absl::Status AwaitProbe(const std::string& id, absl::Time deadline,
                          const Cancelled& cancelled) const;
  std::vector<DeviceView> Views() const;

  Workers& workers_;
  db::DeviceStore& store_;
  const ProbeTime when_;
  const RetryPauses pauses_;
  mutable DeviceTurns turns_;
  std::atomic<bool> stopping_ = false;
  mutable Mutex mutex_;
  mutable std::condition_variable changed_;
  // Mutable because asking for a device may be what starts the probe.
  mutable bool probed_ ABSL_GUARDED_BY(mutex_) = false;
  mutable std::set<std::string> being_probed_ ABSL_GUARDED_BY(mutex_);  // ids
  // By device id; compilers as in its view.
  mutable std::map<std::string, std::string> compilers_ ABSL_GUARDED_BY(mutex_);
  mutable std::map<std::string, NextTry> next_tries_ ABSL_GUARDED_BY(mutex_);
  mutable std::thread thread_ ABSL_GUARDED_BY(mutex_);
  mutable Mutex known_mutex_;
  // The last result of Known, and the version of the devices that it is of.
  mutable std::shared_ptr<const std::vector<DeviceStatus>> known_ ABSL_GUARDED_BY(known_mutex_);
  mutable uint64_t known_version_ ABSL_GUARDED_BY(known_mutex_) = 0;
};

}  // namespace tune::server
