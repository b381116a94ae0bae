// SPDX-License-Identifier: Apache-2.0
#include "tuner/sweep/sweep.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune {
namespace {

// How long a cancelled sweep may go on unaware.
constexpr absl::Duration kWait = absl::Milliseconds(50);
constexpr absl::Duration kKeep = absl::Milliseconds(50);

Observation ObservationOf(uint64_t index, const Trial& trial) {
  const Measurement& measurement = trial.measurement;
  Observation observation{
      .index = index, .outcome = trial.outcome, .latency_ns = measurement.latency_ns_median};
  if (measurement.latency_ns_median > 0) {
    // The interval is 95 % wide: 3.92 standard deviations of a normal.
    observation.relative_std = (measurement.latency_ns_high - measurement.latency_ns_low) / 3.92 /
                               measurement.latency_ns_median;
  }
  const Resources& resources = trial.resources;
  if (resources.registers > 0) {
    observation.resources = VariantResources{
        .registers = resources.registers,
        .spill_bytes = resources.spill_bytes,
        .shared_bytes = resources.static_shared_bytes + resources.dynamic_shared_bytes};
  }
  return observation;
}

class SweepLoop {
 public:
  SweepLoop(const Space& space, Strategy& strategy, Evaluator& evaluator, const SweepBudget& budget,
            const SweepHooks& hooks)
      : space_(space),
        strategy_(strategy),
        evaluator_(evaluator),
        hooks_(hooks),
        in_flight_max_(budget.in_flight > 0 ? std::min(budget.in_flight, evaluator.capacity())
                                            : evaluator.capacity()),
        stop_rules_(budget, evaluator.Now()) {}

  void Reuse(const std::vector<Trial>& known) {
    std::unordered_set<uint64_t> seen;
    for (const Trial& trial : known) {
      const std::optional<uint64_t> index = space_.IndexOf(trial.config);
      if (!index.has_value() || !seen.insert(*index).second) continue;
      ++summary_.reused;
      Learn(*index, trial);
    }
  }

  absl::StatusOr<SweepSummary> Run() && {
    while (true) {
      if (IsCancelled()) {
        RETURN_IF_ERROR(KeepFinished());
        summary_.cancelled = true;
        summary_.end = SweepEnd::kCancelled;
        break;
      }
      const absl::Duration left = stop_rules_.deadline() - evaluator_.Now();
      if (left <= absl::ZeroDuration() && !in_flight_.empty()) {
        RETURN_IF_ERROR(KeepFinished());
        summary_.dropped = in_flight_.size();
        summary_.end = SweepEnd::kTime;
        break;
      }
      if (MayStart()) {
        RETURN_IF_ERROR(StartOne());
        continue;
      }
      if (in_flight_.empty()) break;
      RETURN_IF_ERROR(FinishOne(std::min(kWait, left)).status());
    }
    return std::move(summary_);
  }

 private:
  bool IsCancelled() const {
    return hooks_.cancelled != nullptr && hooks_.cancelled->load(std::memory_order_relaxed);
  }

  bool MayStart() {
    if (summary_.end != SweepEnd::kNone) return false;
    if (in_flight_.size() >= in_flight_max_) return false;
    summary_.end = stop_rules_.Check(in_flight_.size(), evaluator_.Now());
    return summary_.end == SweepEnd::kNone;
  }

  absl::Status StartOne() {
    const std::optional<uint64_t> index = strategy_.Ask();
    if (!index.has_value()) {
      summary_.end = SweepEnd::kStrategyDone;
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(evaluator_.Start(space_.At(*index)));
    stop_rules_.Started(strategy_.ImprovementChance());
    in_flight_.insert(*index);
    return absl::OkStatus();
  }

  // False if no trial has finished in time.
  absl::StatusOr<bool> FinishOne(absl::Duration wait) {
    ASSIGN_OR_RETURN(std::optional<Trial> trial, evaluator_.Next(wait));
    if (!trial.has_value()) return false;
    const std::optional<uint64_t> index = space_.IndexOf(trial->config);
    if (!index.has_value() || in_flight_.erase(*index) == 0) {
      return absl::InternalError(absl::StrCat("the evaluator returned a config that was not ",
                                              "started: ", ToText(trial->config)));
    }
    // Stored before it is used, so that a crash loses no result that was reported.
    if (hooks_.store) RETURN_IF_ERROR(hooks_.store(*trial));
    Learn(*index, *trial);
    if (hooks_.progress) hooks_.progress(summary_, *trial);
    return true;
  }

  // Storing takes as long as the disk does: what is left after a moment is measured again one day.
  absl::Status KeepFinished() {
    const absl::Time until = evaluator_.Now() + kKeep;
    while (!in_flight_.empty() && evaluator_.Now() < until) {
      ASSIGN_OR_RETURN(const bool finished, FinishOne(absl::ZeroDuration()));
      if (!finished) break;
    }
    return absl::OkStatus();
  }

  void Learn(uint64_t index, const Trial& trial) {
    const double latency_ns = trial.measurement.latency_ns_median;
    const bool ok = trial.outcome == Outcome::kOk;
    strategy_.Tell(ObservationOf(index, trial));
    stop_rules_.Finished(ok ? std::optional(latency_ns) : std::nullopt);
    ++summary_.done;
    ++summary_.outcomes[trial.outcome];
    if (!ok) return;
    if (summary_.best.has_value() && summary_.best->measurement.latency_ns_median <= latency_ns) {
      return;
    }
    summary_.best = trial;
    evaluator_.SetRival(latency_ns);
  }

  const Space& space_;
  Strategy& strategy_;
  Evaluator& evaluator_;
  const SweepHooks& hooks_;
  const size_t in_flight_max_;
  StopRules stop_rules_;
  std::unordered_set<uint64_t> in_flight_;
  SweepSummary summary_;
};

}  // namespace

absl::StatusOr<SweepSummary> RunSweep(const Space& space, Strategy& strategy, Evaluator& evaluator,
                                      const SweepBudget& budget, const std::vector<Trial>& known,
                                      const SweepHooks& hooks) {
  SweepLoop loop(space, strategy, evaluator, budget, hooks);
  loop.Reuse(known);
  return std::move(loop).Run();
}

}  // namespace tune
