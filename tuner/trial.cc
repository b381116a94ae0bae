// SPDX-License-Identifier: Apache-2.0
#include "tuner/trial.h"

namespace tune {

bool TooNoisyToTell(const Measurement& measurement) {
  const double width = measurement.latency_ns_high - measurement.latency_ns_low;
  return measurement.latency_ns_low > 0 && width > kNoisyWidth * measurement.latency_ns_median;
}

std::string ToText(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk:
      return "ok";
    case Outcome::kInvalidConfig:
      return "invalid_config";
    case Outcome::kCompileFailed:
      return "compile_failed";
    case Outcome::kCompileTimeout:
      return "compile_timeout";
    case Outcome::kLaunchFailed:
      return "launch_failed";
    case Outcome::kWrongResult:
      return "wrong_result";
    case Outcome::kFaulted:
      return "faulted";
    case Outcome::kTimedOut:
      return "timed_out";
    case Outcome::kAboveRoof:
      return "above_roof";
  }
  return "unknown";
}

std::string ToText(Clock clock) {
  switch (clock) {
    case Clock::kUnknown:
      return "unknown";
    case Clock::kCupti:
      return "cupti";
    case Clock::kEvents:
      return "events";
    case Clock::kHost:
      return "host";
  }
  return "unknown";
}

std::string ToText(CacheMode mode) { return mode == CacheMode::kWarm ? "warm" : "cold"; }

std::string ToText(TrialPurpose purpose) {
  return purpose == TrialPurpose::kConfirm ? "confirm" : "search";
}

}  // namespace tune
