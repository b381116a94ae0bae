// SPDX-License-Identifier: Apache-2.0
// A recording: a space whose configs were measured before, on a device that need not be at hand.
// Ours and other people's; formats.h reads and writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tuner/config.h"
#include "tuner/space/space.h"
#include "tuner/trial.h"

namespace tune::replay {

// The recorded result of a config.
struct RecordedTrial {
  Outcome outcome = Outcome::kOk;
  double latency_ns = 0;        // kOk only, above 0
  double latency_ns_std = 0;    // between launches; 0 if unknown
  double evaluate_seconds = 0;  // what trying it cost: compile, check, time; 0 if unknown
  // The compiler's report on the variant; 0 if unknown.
  int64_t registers = 0;
  int64_t spill_bytes = 0;
  int64_t shared_bytes = 0;

  friend bool operator==(const RecordedTrial&, const RecordedTrial&) = default;
};

struct Recording {
  std::string name;     // "convolution-A100"
  std::string kernel;   // for people
  std::string device;   // what was measured: "NVIDIA A100-PCIE-40GB"
  std::string problem;  // for people: "4096 4096"
  std::string source;   // where it is from, and its licence; empty for our own
  std::vector<SpaceParam> params;
  std::vector<std::string> constraints;  // expressions over the params, as far as they are known
  // Whether valid configs may be missing: the rows are then all there is to play.
  bool sampled = false;

  // The trials, in the enumeration order of the params (last param fastest), each config once.
  std::vector<RecordedTrial> trials;
  // The digits of trial i are digits[i * params.size()] and the following: positions in the params'
  // values.
  std::vector<uint16_t> digits;

  absl::Span<const uint16_t> DigitsOf(size_t trial) const {
    return absl::MakeSpan(digits).subspan(trial * params.size(), params.size());
  }
  Config ConfigOf(size_t trial) const;
  size_t CountOk() const;
  // The fastest trial that was ok; nothing if none was.
  std::optional<size_t> Best() const;
};

inline constexpr size_t kMaxRecordedTrials = 10'000'000;

// Collects trials in any order. Params that come without values get those that are seen: numbers in
// ascending order, others in the order of appearance.
class RecordingBuilder {
 public:
  // `header` without trials.
  explicit RecordingBuilder(Recording header);

  // Adds a trial with a value for each param. The first of two trials of one config counts.
  // INVALID_ARGUMENT for a value that the param does not have.
  absl::Status Add(const std::vector<Value>& values, const RecordedTrial& trial);
  size_t size() const { return recording_.trials.size(); }
  const Recording& header() const { return recording_; }

  // INVALID_ARGUMENT: no trials, no params, or names or values that a space does not take.
  absl::StatusOr<Recording> Build() &&;

 private:
  void SortSeenValues(size_t param);
  absl::Status Check() const;

  Recording recording_;
  std::vector<bool> values_given_;                       // for each param
  std::vector<std::map<std::string, uint16_t>> digits_;  // for each param, by the value's key
};

// A recording with the space of its trials: index i is trial i. The space has only configs with a
// row.
class RecordedSpace {
 public:
  static absl::StatusOr<RecordedSpace> Create(Recording recording);

  const Recording& recording() const { return recording_; }
  const Space& space() const { return space_; }
  // REQUIRES: index < space().size().
  const RecordedTrial& At(uint64_t index) const { return recording_.trials[index]; }
  // The best latency there is; 0 if no trial was ok.
  double optimum_ns() const { return optimum_ns_; }

 private:
  RecordedSpace(Recording recording, Space space);

  Recording recording_;
  Space space_;
  double optimum_ns_ = 0;
};

}  // namespace tune::replay
