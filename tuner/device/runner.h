// SPDX-License-Identifier: Apache-2.0
// Runs compiled variants on one device: checks their results, then times them. Runs inside a device
// worker process, which may be killed at any time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/plan.h"
#include "tuner/trial.h"

namespace tune {

struct Ceiling {
  std::string name;  // "dram_copy" in bytes/s; "f32", "tensor_bf16", ... in FLOP/s
  double value = 0;
  bool measured = false;
};

struct DeviceInfo {
  std::string name;    // "NVIDIA H200", "cpu:AMD EPYC 9654"
  std::string target;  // "sm_90a", "cpu"
  int64_t sm_count = 0;
  int64_t memory_bytes = 0;
  int64_t l2_bytes = 0;
  int64_t max_shared_bytes = 0;
  std::string uuid;
  std::string driver;
  Clock clock = Clock::kUnknown;
  std::string clock_note;  // why not the canonical clock; empty if it is
};

// How samples are taken. The defaults suit a search: enough to rank configs, since the top few are
// measured again before a winner is named.
struct SamplePolicy {
  CacheMode cache_mode = CacheMode::kCold;
  int samples_min = 20;
  int samples_max = 60;
  double seconds_max = 0.05;  // of kernel time per trial
  double precision = 0.005;   // half width of the median's interval over the median
  // Stop after a few samples if slower than this by far (nanoseconds; 0: no rival yet).
  double rival_latency_ns = 0;
  double hopeless_ratio = 2.0;
};

struct RunRequest {
  VariantPlan variant;  // compile.source_text may be empty
  std::string binary;
  SamplePolicy policy;
};

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

// Not thread-safe. Lives in a device worker.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual const DeviceInfo& info() const = 0;
  // Measures what utilisation is held against; cached by the server, so called seldom. A second or
  // so.
  virtual absl::StatusOr<std::vector<Ceiling>> MeasureCeilings() = 0;
  // Runs a small known kernel and checks it: is the device fit for use?
  virtual absl::Status Canary() = 0;
  // Allocates and fills the buffers, runs the reference and keeps its outputs. Replaces the problem
  // before it. INVALID_ARGUMENT: the reference is at fault; RESOURCE_EXHAUSTED: it does not fit.
  virtual absl::Status Prepare(const ProblemPlan& plan, const std::string& reference_binary,
                               uint64_t seed) = 0;
  // REQUIRES: Prepare succeeded. A non-OK status means the runner can no longer be used.
  virtual absl::StatusOr<RunReport> Run(const RunRequest& request) = 0;
};

}  // namespace tune
