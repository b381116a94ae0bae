// SPDX-License-Identifier: Apache-2.0
// Runs compiled variants on one device: checks their results, then times them. Runs inside a device
// worker process, which may be killed at any time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/ceiling.h"
#include "tuner/counters/counting.h"
#include "tuner/device_info.h"
#include "tuner/plan.h"
#include "tuner/sample_policy.h"
#include "tuner/trial.h"

namespace tune {

struct RunRequest {
  Program program;
  SamplePolicy policy;
};
TUNE_FIELDS(RunRequest, program, policy);

struct RunReport {
  // kOk, kInvalidConfig, kLaunchFailed, kWrongResult or kFaulted. After kFaulted the runner cannot
  // be used again: the process must be replaced.
  Outcome outcome = Outcome::kOk;
  std::string message;
  std::vector<double> samples_ns;
  bool stopped_early = false;
  Clock clock = Clock::kUnknown;
  Telemetry telemetry;
  ResultError error;
  Resources resources;  // what only the device knows (registers by the driver's word)
};
TUNE_FIELDS(RunReport, outcome, message, samples_ns, stopped_early, clock, telemetry, error,
            resources);

// Not thread-safe. Lives in a device worker.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual const DeviceInfo& info() const = 0;
  // Measures the ceilings, with which utilisation is compared; cached by the server, so called
  // seldom. Takes about a second.
  virtual absl::StatusOr<std::vector<Ceiling>> MeasureCeilings() = 0;
  // The whole suite of ceilings; sustained compute figures too, after so many seconds of load each,
  // unless that is 0.
  virtual absl::StatusOr<std::vector<Ceiling>> MeasureCeilingSuite(double sustained_seconds);
  // Runs a small known kernel and checks it: is the device fit for use?
  virtual absl::Status Canary() = 0;
  // Allocates and fills the buffers, runs the reference and keeps its outputs. Replaces the problem
  // before it. INVALID_ARGUMENT: the reference is at fault; RESOURCE_EXHAUSTED: it does not fit.
  virtual absl::Status Prepare(const ProblemPlan& plan, const std::string& reference_binary,
                               uint64_t seed) = 0;
  // REQUIRES: Prepare succeeded. A non-OK status means the runner can no longer be used.
  virtual absl::StatusOr<RunReport> Run(const RunRequest& request) = 0;
  // Judges results that another program computed for the problem, as Run judges a variant's; times
  // nothing. An output that is not given counts as not written. REQUIRES: Prepare succeeded.
  // INVALID_ARGUMENT for an output that the problem does not have, or of another size.
  virtual absl::StatusOr<RunReport> Judge(const std::vector<BufferFile>& outputs);
  // Reads counters while a variant runs. Only in a runner made for it, which never times.
  // REQUIRES: Prepare succeeded.
  virtual absl::StatusOr<CountReport> Count(const CountRequest& request);
  // Runs kernels whose counts are known. As Count; needs no problem.
  virtual absl::StatusOr<CalibrationReport> Calibrate();
};

}  // namespace tune
