// SPDX-License-Identifier: Apache-2.0
// Drives a device through a worker process. The worker loads the driver and runs foreign kernels,
// so it may fault, hang, crash or send false replies. The supervisor gives each request a deadline,
// replaces a worker that fails, and has the new one pass a canary before the device counts as
// healthy. It blames a variant for a timeout, or for a failure that repeats in a fresh worker.
//
//   ASSIGN_OR_RETURN(DeviceSupervisor * device, workers.FindDevice("cuda:0"));
//   RETURN_IF_ERROR(device->Open(cancelled));
//   RETURN_IF_ERROR(device->Prepare(plan, reference_binary, seed, cancelled));
//   ASSIGN_OR_RETURN(RunReport report, device->Run(request, cancelled));
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/supervision/stuck_workers.h"
#include "server/supervision/wall_book.h"
#include "server/supervision/worker_process.h"
#include "tuner/device/runner.h"
#include "tuner/device_profile.h"
#include "tuner/kernel/kernel.h"

namespace tune::server {

// Values as in device.proto.
enum class DeviceState { kHealthy = 1, kSuspect = 2, kQuarantined = 3, kUnavailable = 4 };

struct MeasuredCeiling {
  Ceiling ceiling;
  int64_t measured_unix_ms = 0;
};

struct DeviceStatus {
  std::string id;  // "cuda:0", "cpu"
  DeviceState state = DeviceState::kUnavailable;
  std::string message;  // why it is not healthy and what to do
  DeviceInfo info;      // empty until the device was opened once
  std::string model;    // a GPU's name, as the driver's files have it before; may be empty
  std::vector<Ceiling> ceilings;
  std::vector<MeasuredCeiling> unsaved;  // of the ceilings, those measured here and not kept yet
  uint64_t worker_restarts = 0;
};

// The device's traits that planning a kernel needs.
TargetTraits TraitsOf(const DeviceInfo& info);

inline bool IsOutOfUse(const DeviceStatus& status) {
  return status.state == DeviceState::kQuarantined || status.state == DeviceState::kUnavailable;
}

// Why a device cannot be used for now: "device cuda:0 cannot be used: its canary failed". Empty: it
// can. `devices`: those of the host.
std::string WhyOutOfUse(const std::vector<DeviceStatus>& devices, const std::string& id);

// Whether the device may be used if the caller asks for none. A suspect one may: its next worker
// must pass the canary anyway, and until then a GPU's work must not move to the CPU unasked. The
// CPU always may.
inline bool MayBeDefault(const DeviceStatus& status) {
  return status.state == DeviceState::kHealthy || status.state == DeviceState::kSuspect ||
         ProfileOfDevice(status.id).is_host;
}

struct DeviceSupervisorOptions {
  std::string id;
  std::string model;  // see DeviceStatus
  WorkerCommand command;
  std::string scratch_dir;  // for the worker's files; empty: none
  // Must outlive the supervisor. No kernel runs unless the walls around the worker stand, or the
  // book allows weak ones. Null in tests only: walls are then not checked.
  WallBook* walls = nullptr;
  // Variants are code of the worker's process. It then serves one problem and measures no ceilings
  // afterwards, since one kernel's code could falsify later replies.
  bool runs_foreign_code = false;
  // The most memory by which the worker may grow after a problem is prepared; 0: unlimited.
  int64_t headroom_bytes = 0;
  absl::Duration start_deadline = absl::Seconds(30);
  absl::Duration canary_deadline = absl::Seconds(10);
  absl::Duration ceilings_deadline = absl::Seconds(60);
  absl::Duration prepare_deadline = absl::Seconds(60);
  absl::Duration run_deadline = absl::Seconds(10);
  absl::Duration count_deadline = absl::Seconds(60);
  absl::Duration suite_deadline = absl::Minutes(3);  // without the load of sustained figures
  int runs_per_worker = 300;
};

// Status() is thread-safe and never waits, so lists of devices use it. All other calls may come
// from any thread and run one at a time; a caller waits for another's at most a run's deadline. A
// wait ends with CANCELLED within 50 ms of `cancelled`; the worker is then killed.
class DeviceSupervisor {
 public:
  explicit DeviceSupervisor(DeviceSupervisorOptions options);
  ~DeviceSupervisor();

  // A second worker for the same device, with a scratch folder of its own, to compare two processes
  // that exist at the same time. The caller must not use both at once.
  std::unique_ptr<DeviceSupervisor> MakeTwin(const std::string& name) const;

  const std::string& id() const { return options_.id; }
  const std::string& program() const { return options_.command.program; }
  DeviceStatus Status() const;
  // Changes whenever Status may report another device or state.
  uint64_t status_version() const { return 2 * status_version_ + (stuck_->First() != 0 ? 1 : 0); }

  // Starts a worker if there is none. It must pass the canary; otherwise the device is quarantined
  // until a later Open succeeds. UNAVAILABLE: no driver, no such device, no program, or an earlier
  // worker that does not end. FAILED_PRECONDITION: quarantined. Both say what to do.
  absl::Status Open(const Cancelled& cancelled = {});
  // Like Open, and tries the walls if they were not tried yet; leaves no worker.
  absl::Status Inspect(const Cancelled& cancelled = {});
  // Ends the worker, which frees its memory on the device. Open starts another.
  void Close();
  // Keeps the device out of use until this process ends. Called for a worker, of this supervisor or
  // of a twin, that does not end when it is killed.
  void OutOfUseUntilOver(std::unique_ptr<WorkerProcess> worker) { stuck_->Keep(std::move(worker)); }

  // Sets ceilings from the store, so that they are not measured again. None are unsaved afterwards.
  void SetCeilings(std::vector<Ceiling> ceilings);
  // The ceilings. The worker measures them if they are not known yet.
  absl::StatusOr<std::vector<Ceiling>> Ceilings(const Cancelled& cancelled = {});
  // Measures the ceilings again and keeps the higher value of each, as a busy host may have lowered
  // one.
  absl::StatusOr<std::vector<Ceiling>> RaiseCeilings(const Cancelled& cancelled = {});

  // Measures the whole suite, each time anew, and does not keep it. See
  // Runner::MeasureCeilingSuite.
  absl::StatusOr<std::vector<Ceiling>> CeilingSuite(double sustained_seconds,
                                                    const Cancelled& cancelled = {});

  // Loads a problem, and loads it again whenever the worker is replaced. INVALID_ARGUMENT if the
  // reference is at fault; RESOURCE_EXHAUSTED if the problem does not fit.
  absl::Status Prepare(const ProblemPlan& plan, const std::string& reference_binary, uint64_t seed,
                       const Cancelled& cancelled = {});

  // Runs a variant once or twice. A variant that faults, crashes its worker or makes it send
  // garbage is tried again alone in a fresh worker, and only then blamed (kFaulted). A variant that
  // does not end by the deadline is blamed at once (kTimedOut), as nothing else was running. A
  // non-OK status means that the device cannot be used. REQUIRES: Prepare succeeded.
  absl::StatusOr<RunReport> Run(const RunRequest& request, const Cancelled& cancelled = {});

  // Judges outputs that another program computed for the problem; see Runner::Judge. Tries once.
  // INVALID_ARGUMENT or RESOURCE_EXHAUSTED if the outputs are at fault. REQUIRES: Prepare
  // succeeded.
  absl::StatusOr<RunReport> Judge(const std::vector<BufferFile>& outputs,
                                  const Cancelled& cancelled = {});

  // For a supervisor whose worker counts. Tries once: if the worker dies, the report says that
  // there are no counters, and why. UNIMPLEMENTED if this device has none. REQUIRES: Prepare
  // succeeded.
  absl::StatusOr<CountReport> Count(const CountRequest& request, const Cancelled& cancelled = {});
  absl::StatusOr<CalibrationReport> Calibrate(const Cancelled& cancelled = {});

 private:
  using Request = worker::v1::WorkerRequest;
  using Reply = worker::v1::WorkerReply;
  // The result of trying a run once: a report, or the reason why the worker is gone.
  struct Try {
    std::optional<RunReport> report;
    std::string failure;
  };

  DeviceSupervisor(DeviceSupervisorOptions options, std::shared_ptr<StuckWorkers> stuck);

  absl::Status EnsureWorker(const Cancelled& cancelled) ABSL_EXCLUSIVE_LOCKS_REQUIRED(use_mutex_);
  void EndWorker() ABSL_EXCLUSIVE_LOCKS_REQUIRED(use_mutex_) { stuck_->End(std::move(worker_)); }
  // Like EnsureWorker, but the worker may have ended when its walls were tried.
  absl::Status StartAnyWorker(const Cancelled& cancelled) ABSL_EXCLUSIVE_LOCKS_REQUIRED(use_mutex_);
  absl::Status StartWorker(const Cancelled& cancelled) ABSL_EXCLUSIVE_LOCKS_REQUIRED(use_mutex_);
  absl::Status StartProcess(const Cancelled& cancelled) ABSL_EXCLUSIVE_LOCKS_REQUIRED(use_mutex_);
  // UNAVAILABLE if walls are missing. May leave no worker.
  absl::Status CheckWalls(const Cancelled& cancelled) ABSL_EXCLUSIVE_LOCKS_REQUIRED(use_mutex_);
  absl::Status Greet(const Cancelled& cancelled) ABSL_EXCLUSIVE_LOCKS_REQUIRED(use_mutex_);
  absl::Status TryCanary(const Cancelled& cancelled) ABSL_EXCLUSIVE_LOCKS_REQUIRED(use_mutex_);
  absl::StatusOr<std::vector<Ceiling>> MeasureCeilings(const Cancelled& cancelled)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(use_mutex_);
  void AddMeasured(std::vector<Ceiling> ceilings);
  absl::Status EnsureProblem(const Cancelled& cancelled) ABSL_EXCLUSIVE_LOCKS_REQUIRED(use_mutex_);
  absl::StatusOr<Try> TryRun(const Request& request, const Cancelled& cancelled)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(use_mutex_);
  // Asks the worker, starting one if needed. UNAVAILABLE if it did not answer the question,
  // UNIMPLEMENTED if it cannot.
  absl::StatusOr<Reply> CallOnce(const Request& request, Reply::KindCase expected,
                                 absl::Duration limit, const Cancelled& cancelled)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(use_mutex_);
  // Ends a worker that has run foreign code in its process: its later replies may be that code's.
  void DropTaintedWorker() ABSL_EXCLUSIVE_LOCKS_REQUIRED(use_mutex_);
  // The status of a call that was given up, or for which the host has no room; else OK.
  absl::Status NoAnswer(const WorkerAnswer& answer) const;
  // Ends a worker that failed; the device is suspect until a canary passes.
  void Distrust(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(use_mutex_);
  void SetState(DeviceState state, const std::string& message);

  const DeviceSupervisorOptions options_;
  const std::shared_ptr<StuckWorkers> stuck_;  // its twins have the same
  Mutex use_mutex_;                            // held during every call but Status
  std::unique_ptr<WorkerProcess> worker_ ABSL_GUARDED_BY(use_mutex_);
  std::optional<Request> problem_ ABSL_GUARDED_BY(use_mutex_);
  bool problem_loaded_ ABSL_GUARDED_BY(use_mutex_) = false;
  int runs_ ABSL_GUARDED_BY(use_mutex_) = 0;
  std::string walls_missing_ ABSL_GUARDED_BY(use_mutex_);  // as the worker says
  // The worker has run foreign code in its process.
  bool tainted_ ABSL_GUARDED_BY(use_mutex_) = false;
  // ProblemPlan::origin of what the worker has run.
  std::optional<std::string> origin_ ABSL_GUARDED_BY(use_mutex_);

  mutable Mutex status_mutex_;
  DeviceStatus status_ ABSL_GUARDED_BY(status_mutex_);
  std::atomic<uint64_t> status_version_ = 0;
};

}  // namespace tune::server
