// SPDX-License-Identifier: Apache-2.0
// A device held for measuring. A session has a fixed number of twins: workers of the device, each
// in a process of its own, that hold a problem at the same time and are asked by turns. What gates,
// comparisons, profiles, ceilings and finals measure are policies over a Session, so that what a
// full device, a replaced process and a compiler on the same processors mean is decided here once.
//
//   DeviceSession session(device, compilers, "gate", /*twins=*/2, cancelled);
//   ASSIGN_OR_RETURN(const CompilePause quiet, session.Quiet());
//   RETURN_IF_ERROR(session.Renew({0, 1}));
//   RETURN_IF_ERROR(session.Prepare(0, problem, reference_binary, seed, IfFull::kFail));
//   ASSIGN_OR_RETURN(Leg leg, session.Measure(0, {program, policy}));
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/supervision/compilers.h"
#include "server/supervision/device_supervisor.h"
#include "tuner/plan.h"

namespace tune::server {

// A program on its problem, and what both were compiled to.
struct Variant {
  ProblemPlan problem;
  CompileResult reference;  // of problem.reference
  ProgramPlan plan;
  CompileResult compiled;  // of plan
};

// A program measured once in one process.
struct Leg {
  RunReport report;
  // The process was replaced during the leg: another process runs from here on.
  bool replaced = false;
};

// The policy of legs, which a median's precision ends: see docs/gate.md. `leg_seconds` is the most
// that one takes; 0: as the target's profile says.
SamplePolicy LegPolicy(const std::string& target, CacheMode cache_mode, double leg_seconds);

// What Prepare does if the problem does not fit on the device beside the other twins.
enum class IfFull {
  kFail,      // RESOURCE_EXHAUSTED: both are needed at once
  kUseAlone,  // ends the other twins' processes and tries once more
};

// Whether a problem or its program cannot be prepared, rather than that the device is lost.
inline bool IsVariantsFault(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status);
}

// Not thread-safe. The caller has the device's turn.
class Session {
 public:
  virtual ~Session() = default;

  // Ends every process on the device, then starts those of `twins`, all at the same time.
  virtual absl::Status Renew(const std::vector<size_t>& twins) = 0;
  // Ends every process.
  virtual void Close() = 0;
  // Ends the process of a twin while the next twins work.
  virtual void Retire(size_t twin) = 0;
  // While the result lives, no compiler runs on the processors that the device measures with.
  virtual absl::StatusOr<CompilePause> Quiet() = 0;

  // Loads a problem into a twin, whose process starts if there is none. Computes the host-side
  // reference for the inputs of `seed` if that was not done yet. IsVariantsFault tells whether the
  // problem is at fault; otherwise the device is lost.
  virtual absl::Status Prepare(size_t twin, const ProblemPlan& problem,
                               const std::string& reference_binary, uint64_t seed,
                               IfFull if_full) = 0;
  // Checks a program against the reference, and times it. A non-OK status means that the device is
  // lost. REQUIRES: Prepare succeeded.
  virtual absl::StatusOr<Leg> Measure(size_t twin, const RunRequest& request) = 0;
  // Checks outputs that another program computed. REQUIRES: Prepare succeeded.
  virtual absl::StatusOr<RunReport> Judge(size_t twin, const std::vector<BufferFile>& outputs) = 0;
  // Measures all the ceilings of the device, the sustained ones under a load of so many seconds
  // each; 0 leaves them out.
  virtual absl::StatusOr<std::vector<Ceiling>> MeasureCeilings(size_t twin,
                                                               double sustained_seconds) = 0;
};

// A session over workers of one device. `device` and `compilers` must outlive it. Once `cancelled`
// returns true, waits end within 50 ms with CANCELLED; it may be empty.
class DeviceSession : public Session {
 public:
  // Its one twin is the device's own worker.
  DeviceSession(DeviceSupervisor& device, const Compilers& compilers, Cancelled cancelled)
      : DeviceSession(device, compilers, "", 0, std::move(cancelled)) {
    twins_.push_back(&device);
  }
  // `name`: of the twins' scratch folders.
  DeviceSession(DeviceSupervisor& device, const Compilers& compilers, const std::string& name,
                size_t twins, Cancelled cancelled);

  absl::Status Renew(const std::vector<size_t>& twins) override;
  void Close() override;
  void Retire(size_t twin) override;
  absl::StatusOr<CompilePause> Quiet() override;
  absl::Status Prepare(size_t twin, const ProblemPlan& problem, const std::string& reference_binary,
                       uint64_t seed, IfFull if_full) override;
  absl::StatusOr<Leg> Measure(size_t twin, const RunRequest& request) override;
  absl::StatusOr<RunReport> Judge(size_t twin, const std::vector<BufferFile>& outputs) override;
  absl::StatusOr<std::vector<Ceiling>> MeasureCeilings(size_t twin,
                                                       double sustained_seconds) override;

 private:
  DeviceSupervisor& device_;
  const Compilers& compilers_;
  const Cancelled cancelled_;
  std::vector<std::unique_ptr<DeviceSupervisor>> own_;
  std::vector<DeviceSupervisor*> twins_;
  bool is_full_ = false;  // the twins did not fit on the device at once
  std::vector<std::future<void>> retiring_;
};

}  // namespace tune::server
