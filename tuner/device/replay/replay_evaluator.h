// SPDX-License-Identifier: Apache-2.0
// A recorded space as a device: trials come out as they were recorded, in no time. The clock is a
// virtual one that goes on by what each trial cost when it was recorded.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "tuner/device/replay/recording.h"
#include "tuner/sweep/evaluator.h"

namespace tune::replay {

// "replay:NVIDIA A100": what a replayed device is called everywhere, so that it passes for no real
// one.
std::string DeviceName(const Recording& recording);

class ReplayEvaluator : public Evaluator {
 public:
  // `space` must outlive the evaluator. With a capacity above 1 trials finish in the order in which
  // that many workers would have finished them.
  ReplayEvaluator(const RecordedSpace& space, size_t capacity)
      : space_(space), capacity_(capacity) {}

  size_t capacity() const override { return capacity_; }
  absl::Status Start(const Config& config) override;
  absl::StatusOr<std::optional<Trial>> Next(absl::Duration wait) override;
  absl::StatusOr<std::vector<Trial>> Remeasure(const std::vector<Config>& configs) override;
  void SetRival(double) override {}
  absl::Time Now() const override { return absl::UnixEpoch() + elapsed_; }

  // The time that the trials so far took when they were recorded.
  absl::Duration elapsed() const { return elapsed_; }

 private:
  struct InFlight {
    absl::Duration end;
    uint64_t number = 0;  // of equal ends, the one started first comes first
    uint64_t index = 0;
    friend bool operator<(const InFlight& a, const InFlight& b) {
      return std::pair(a.end, a.number) < std::pair(b.end, b.number);
    }
  };

  absl::StatusOr<uint64_t> IndexOf(const Config& config) const;
  Trial TrialOf(uint64_t index) const;

  const RecordedSpace& space_;
  const size_t capacity_;
  std::set<InFlight> in_flight_;
  uint64_t started_ = 0;
  absl::Duration elapsed_ = absl::ZeroDuration();
};

}  // namespace tune::replay
