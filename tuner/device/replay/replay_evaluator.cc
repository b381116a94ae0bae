// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/replay/replay_evaluator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::replay {
namespace {

// Half the width of a 95 % interval, in standard deviations: what the sweep loop takes it for.
constexpr double kIntervalDeviations = 1.96;

}  // namespace

std::string DeviceName(const Recording& recording) {
  return absl::StrCat("replay:", recording.device.empty() ? recording.name : recording.device);
}

absl::StatusOr<uint64_t> ReplayEvaluator::IndexOf(const Config& config) const {
  const std::optional<uint64_t> index = space_.space().IndexOf(config);
  if (index) return *index;
  return absl::InvalidArgumentError(absl::StrCat("the recording has no ", ToText(config)));
}

absl::Status ReplayEvaluator::Start(const Config& config) {
  ASSIGN_OR_RETURN(const uint64_t index, IndexOf(config));
  const absl::Duration cost = absl::Seconds(space_.At(index).evaluate_seconds);
  in_flight_.insert({.end = elapsed_ + cost, .number = started_++, .index = index});
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Trial>> ReplayEvaluator::Next(absl::Duration wait) {
  if (in_flight_.empty()) return std::nullopt;
  if (in_flight_.begin()->end > elapsed_ + wait) {
    elapsed_ += wait;
    return std::nullopt;
  }
  const InFlight first = in_flight_.extract(in_flight_.begin()).value();
  elapsed_ = std::max(elapsed_, first.end);
  return TrialOf(first.index);
}

absl::StatusOr<std::vector<Trial>> ReplayEvaluator::Remeasure(const std::vector<Config>& configs) {
  std::vector<Trial> trials;
  for (const Config& config : configs) {
    ASSIGN_OR_RETURN(const uint64_t index, IndexOf(config));
    trials.push_back(TrialOf(index));
  }
  return trials;
}

Trial ReplayEvaluator::TrialOf(uint64_t index) const {
  const RecordedTrial& recorded = space_.At(index);
  Trial trial{.config = space_.space().At(index),
              .outcome = recorded.outcome,
              .evaluate_seconds = recorded.evaluate_seconds};
  if (recorded.outcome != Outcome::kOk) trial.message = "failed when it was recorded";
  Measurement& measurement = trial.measurement;
  measurement.latency_ns_median = recorded.latency_ns;
  measurement.latency_ns_mean = recorded.latency_ns;
  measurement.latency_ns_min = recorded.latency_ns;
  measurement.latency_ns_low = recorded.latency_ns - kIntervalDeviations * recorded.latency_ns_std;
  measurement.latency_ns_high = recorded.latency_ns + kIntervalDeviations * recorded.latency_ns_std;
  trial.resources.registers = recorded.registers;
  trial.resources.spill_bytes = recorded.spill_bytes;
  trial.resources.dynamic_shared_bytes = recorded.shared_bytes;
  return trial;
}

}  // namespace tune::replay
