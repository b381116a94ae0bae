// SPDX-License-Identifier: Apache-2.0
// When a sweep ends before its strategy does. The rules combine: the first that holds ends it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace tune {

// When its trials are spent, nothing new is started, and what is in flight is finished. When its
// time is spent, what is in flight is dropped: it was not tried.
struct SweepBudget {
  uint64_t trials = 0;  // 0: no limit
  absl::Duration time = absl::InfiniteDuration();
  // Trials in a row that brought no improvement; 0: no limit. One of less than
  // kImprovementRatioMin is none.
  uint64_t trials_without_improvement = 0;
  // Ends it when the chance that a trial improves on the best is below this, averaged over
  // kChanceWindow trials; 0: never. The strategy's model gives the chance; without one it is
  // 1 / (n + 1) after n trials, as for any exchangeable sequence (Glick, "Breaking records and
  // breaking boards", American Mathematical Monthly, 1978).
  double improvement_chance_min = 0;
  // Trials at once, at most; 0: as many as the evaluator takes.
  size_t in_flight = 0;
};

// A smaller improvement is lost in noise, and is not worth going on for.
inline constexpr double kImprovementRatioMin = 0.001;
inline constexpr size_t kChanceWindow = 16;

// Values are stored and sent: do not renumber.
enum class SweepEnd {
  kNone = 0,  // it goes on
  kStrategyDone = 1,
  kTrials = 2,
  kTime = 3,
  kNoImprovement = 4,
  kImprovementUnlikely = 5,
  kCancelled = 6,
};

// "the budget of trials was spent", ...
std::string ToText(SweepEnd reason);

// Follows a sweep and says when a rule holds. Not thread-safe.
class StopRules {
 public:
  StopRules(const SweepBudget& budget, absl::Time start);

  // A finished trial: its latency if it was ok.
  void Finished(std::optional<double> latency_ns);
  // A trial that was started, and its chance to improve on the best if the strategy has a model.
  void Started(std::optional<double> improvement_chance);
  // Whether another trial may be started with `in_flight` not finished yet; kNone if so.
  SweepEnd Check(uint64_t in_flight, absl::Time now) const;
  // When the budget of time is spent.
  absl::Time deadline() const { return deadline_; }

 private:
  bool IsImprovementUnlikely() const;

  const SweepBudget budget_;
  const absl::Time deadline_;
  uint64_t finished_ = 0;
  uint64_t since_improvement_ = 0;
  std::optional<double> best_ns_;
  std::array<double, kChanceWindow> chances_ = {};  // a ring
  uint64_t chance_count_ = 0;
};

}  // namespace tune
