// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/replay/play.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/device/replay/replay_evaluator.h"

namespace tune::replay {
namespace {

// Passes everything on and takes the time.
class TimedStrategy : public Strategy {
 public:
  explicit TimedStrategy(Strategy& strategy) : strategy_(strategy) {}

  std::optional<uint64_t> Ask() override {
    const auto start = std::chrono::steady_clock::now();
    const std::optional<uint64_t> index = strategy_.Ask();
    ask_us_.push_back(MicrosecondsSince(start));
    return index;
  }
  void Tell(const Observation& observation) override {
    const auto start = std::chrono::steady_clock::now();
    strategy_.Tell(observation);
    tell_us_.push_back(MicrosecondsSince(start));
  }
  std::optional<double> ImprovementChance() const override { return strategy_.ImprovementChance(); }

  std::vector<double> OverheadUs() const {
    std::vector<double> overhead_us(tell_us_.size());
    for (size_t i = 0; i < overhead_us.size(); ++i) overhead_us[i] = ask_us_[i] + tell_us_[i];
    return overhead_us;
  }

 private:
  static double MicrosecondsSince(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
        .count();
  }

  Strategy& strategy_;
  std::vector<double> ask_us_;
  std::vector<double> tell_us_;
};

bool HasTimes(const Recording& recording) {
  return std::any_of(recording.trials.begin(), recording.trials.end(),
                     [](const RecordedTrial& trial) { return trial.evaluate_seconds > 0; });
}

}  // namespace

absl::StatusOr<Played> Play(const RecordedSpace& space, const PlayOptions& options) {
  if (options.budget.time != absl::InfiniteDuration() && !HasTimes(space.recording())) {
    return absl::InvalidArgumentError(
        absl::StrCat("recording ", space.recording().name,
                     " does not say what its trials took: give the budget in trials"));
  }
  ASSIGN_OR_RETURN(
      std::unique_ptr<Strategy> strategy,
      MakeStrategy(options.strategy, space.space(),
                   {.seed = options.seed,
                    .budget_trials = std::min(options.budget.trials, space.space().size()),
                    .in_flight = options.in_flight,
                    .prior = options.prior}));
  TimedStrategy timed(*strategy);
  ReplayEvaluator evaluator(space, options.in_flight);
  Played played;
  double best_ns = std::numeric_limits<double>::infinity();
  SweepHooks hooks;
  hooks.cancelled = options.cancelled;
  hooks.progress = [&](const SweepSummary&, const Trial& trial) {
    if (trial.outcome == Outcome::kOk) {
      best_ns = std::min(best_ns, trial.measurement.latency_ns_median);
    }
    played.best_ns.push_back(best_ns);
  };
  ASSIGN_OR_RETURN(played.summary,
                   RunSweep(space.space(), timed, evaluator, options.budget, {}, hooks));
  played.overhead_us = timed.OverheadUs();
  played.recorded_seconds = absl::ToDoubleSeconds(evaluator.elapsed());
  return played;
}

std::vector<PriorObservation> PriorOf(const Recording& recording, uint32_t source,
                                      size_t trials_max) {
  const std::optional<size_t> best = recording.Best();
  if (!best) return {};
  const double best_ns = recording.trials[*best].latency_ns;
  std::vector<size_t> order(recording.trials.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  // Failures last: they have no latency.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const RecordedTrial& left = recording.trials[a];
    const RecordedTrial& right = recording.trials[b];
    return std::pair(left.outcome != Outcome::kOk, left.latency_ns) <
           std::pair(right.outcome != Outcome::kOk, right.latency_ns);
  });
  const size_t kept = std::min(trials_max, order.size());
  const size_t fastest = kept == order.size() ? kept : kept / 2;
  std::vector<PriorObservation> prior;
  for (size_t i = 0; i < kept; ++i) {
    const size_t place =
        i < fastest ? i : fastest + (i - fastest) * (order.size() - fastest) / (kept - fastest);
    const RecordedTrial& trial = recording.trials[order[place]];
    PriorObservation& observation = prior.emplace_back();
    observation.config = recording.ConfigOf(order[place]);
    observation.outcome = trial.outcome;
    if (trial.outcome == Outcome::kOk) observation.relative_latency = trial.latency_ns / best_ns;
    observation.source = source;
  }
  return prior;
}

}  // namespace tune::replay
