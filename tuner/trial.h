// SPDX-License-Identifier: Apache-2.0
// A trial: one config tried once - compiled, checked, timed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "tuner/config.h"

namespace tune {

// A bad config is an outcome, never an absl::Status. Values are stored and sent: do not renumber.
enum class Outcome {
  kOk = 1,
  kInvalidConfig = 2,
  kCompileFailed = 3,
  kCompileTimeout = 4,
  kLaunchFailed = 5,
  kWrongResult = 6,
  kFaulted = 7,
  kTimedOut = 8,
  kAboveRoof = 9,
};

// "ok", "compile_failed", ...
std::string ToText(Outcome outcome);

enum class Clock { kUnknown = 0, kCupti = 1, kEvents = 2, kHost = 3 };
enum class CacheMode { kCold = 1, kWarm = 2 };

std::string ToText(Clock clock);
std::string ToText(CacheMode mode);

// Statistics of a trial's samples; see tuner/statistics. Times in nanoseconds.
struct Measurement {
  uint64_t sample_count = 0;  // also where samples_ns are left out
  double latency_ns_median = 0;
  double latency_ns_low = 0;  // 95 % interval of the median
  double latency_ns_high = 0;
  double latency_ns_min = 0;
  double latency_ns_mean = 0;
  Clock clock = Clock::kUnknown;
  CacheMode cache_mode = CacheMode::kCold;
  double bytes_per_second = 0;
  double flops_per_second = 0;
  double peak_fraction = 0;  // of the binding ceiling, 0 when unknown
  bool stopped_early = false;
  std::vector<double> samples_ns;
};
TUNE_FIELDS(Measurement, sample_count, latency_ns_median, latency_ns_low, latency_ns_high,
            latency_ns_min, latency_ns_mean, clock, cache_mode, bytes_per_second, flops_per_second,
            peak_fraction, stopped_early, samples_ns);

inline constexpr double kNoisyWidth = 0.2;

// Whether the interval is wider than a fifth of the latency: the host was then too noisy to decide
// how fast the config is, or whether it is faster than another. False without an interval.
bool TooNoisyToTell(const Measurement& measurement);

struct Resources {
  int64_t registers = 0;
  int64_t spill_bytes = 0;
  int64_t stack_bytes = 0;
  int64_t static_shared_bytes = 0;
  int64_t dynamic_shared_bytes = 0;
  int64_t binary_bytes = 0;
  std::string binary_sha256;
};
TUNE_FIELDS(Resources, registers, spill_bytes, stack_bytes, static_shared_bytes,
            dynamic_shared_bytes, binary_bytes, binary_sha256);

struct Telemetry {
  int64_t sm_clock_mhz = 0;
  int64_t memory_clock_mhz = 0;
  int64_t power_mw = 0;
  int64_t temperature_c = 0;
  uint64_t throttle_reasons = 0;
  int64_t compute_processes = 0;  // on the device, ours among them; 0 if unknown
};
TUNE_FIELDS(Telemetry, sm_clock_mhz, memory_clock_mhz, power_mw, temperature_c, throttle_reasons,
            compute_processes);

struct ResultError {
  double max_abs = 0;
  double max_rel = 0;
  double relative_l2 = 0;
  uint64_t bad_elements = 0;
  std::string worst;
};
TUNE_FIELDS(ResultError, max_abs, max_rel, relative_l2, bad_elements, worst);

// Why a config was tried. Values are stored and sent: do not renumber.
enum class TrialPurpose {
  kSearch = 1,
  kConfirm = 2,  // the best few and the default measured again, in rounds of fresh processes
};

std::string ToText(TrialPurpose purpose);  // "search", "confirm"

struct Trial {
  int64_t id = 0;  // given by the store
  int64_t sweep_id = 0;
  TrialPurpose purpose = TrialPurpose::kSearch;
  Config config;
  Outcome outcome = Outcome::kOk;
  std::string message;  // why it is not ok; at most kMaxTrialMessageBytes
  Measurement measurement;
  Resources resources;
  Telemetry telemetry;
  ResultError error;
  double compile_seconds = 0;
  bool compile_cached = false;
  // It did not compile for a reason that is not the compiler's word: the compiler was ended, or a
  // limit of the daemon's. The next sweep tries the config again.
  bool may_pass = false;
  double evaluate_seconds = 0;
  int64_t finished_unix_ms = 0;
};
TUNE_FIELDS(Trial, id, sweep_id, purpose, config, outcome, message, measurement, resources,
            telemetry, error, compile_seconds, compile_cached, may_pass, evaluate_seconds,
            finished_unix_ms);

// Was it timed? One that failed before has no measurement.
inline bool WasTimed(const Trial& trial) {
  return trial.measurement.sample_count > 0 || trial.outcome == Outcome::kOk;
}

inline constexpr size_t kMaxTrialMessageBytes = 16 * 1024;

}  // namespace tune
