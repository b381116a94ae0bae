// SPDX-License-Identifier: Apache-2.0
// Runs compiled variants on one device: checks their results, then times them. Runs inside a device
// worker process, which may be killed at any time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/counters/counting.h"
#include "tuner/plan.h"
#include "tuner/trial.h"

namespace tune {

// What a ceiling limits. Values are stored and sent: do not renumber.
enum class CeilingKind {
  kUnknown = 0,
  kDram = 1,
  kL3 = 2,
  kL2 = 3,
  kL1 = 4,
  kShared = 5,
  kVector = 6,
  kTensor = 7,
  kLink = 8,
  kLaunch = 9,
};

// How long the load lasts: power limits lower compute ceilings after a while.
enum class CeilingPolicy { kBurst = 1, kSustained = 2 };

struct Ceiling {
  std::string name;  // "dram_copy" in bytes/s; "f32", "tensor_bf16", ... in FLOP/s; "launch" in ns
  double value = 0;
  bool measured = false;
  CeilingKind kind = CeilingKind::kUnknown;
  CeilingPolicy policy = CeilingPolicy::kBurst;
  std::string probe;       // what reached it: "copy_4, 512 threads"
  double theoretical = 0;  // from clocks, widths and units; 0 if not known
  // Over fresh processes, once there are several.
  double low = 0;
  double high = 0;
  int process_count = 1;
  Telemetry telemetry;  // right after
  std::string note;
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
  // Reads counters while a variant runs. Only in a runner made for it, which never times.
  // REQUIRES: Prepare succeeded.
  virtual absl::StatusOr<CountReport> Count(const CountRequest& request);
  // Runs kernels whose counts are known. As Count; needs no problem.
  virtual absl::StatusOr<CalibrationReport> Calibrate();
};

}  // namespace tune
