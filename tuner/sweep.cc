// SPDX-License-Identifier: Apache-2.0
#include "tuner/sweep.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tuner/status_macros.h"

namespace tune {
namespace {

// How long a cancelled sweep may go on unaware.
constexpr absl::Duration kWait = absl::Milliseconds(50);

class SweepLoop {
 public:
  SweepLoop(const Space& space, Strategy& strategy, Evaluator& evaluator, const SweepBudget& budget,
            const SweepHooks& hooks)
      : space_(space),
        strategy_(strategy),
        evaluator_(evaluator),
        budget_(budget),
        hooks_(hooks),
        deadline_(absl::Now() + budget.time) {}

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
    bool more = true;
    while (true) {
      if (IsCancelled()) {
        RETURN_IF_ERROR(KeepFinished());
        summary_.cancelled = true;
        break;
      }
      if (more && MayStart()) {
        ASSIGN_OR_RETURN(more, StartOne());
        continue;
      }
      if (in_flight_.empty()) break;
      RETURN_IF_ERROR(FinishOne(kWait).status());
    }
    return std::move(summary_);
  }

 private:
  bool IsCancelled() const {
    return hooks_.cancelled != nullptr && hooks_.cancelled->load(std::memory_order_relaxed);
  }

  bool MayStart() const {
    if (in_flight_.size() >= evaluator_.capacity()) return false;
    if (budget_.trials > 0 && summary_.done + in_flight_.size() >= budget_.trials) return false;
    return absl::Now() < deadline_;
  }

  // False if the strategy has no more configs.
  absl::StatusOr<bool> StartOne() {
    const std::optional<uint64_t> index = strategy_.Ask();
    if (!index.has_value()) return false;
    RETURN_IF_ERROR(evaluator_.Start(space_.At(*index)));
    in_flight_.insert(*index);
    return true;
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
    // Stored before it is believed: a crash loses nothing that anybody was told.
    if (hooks_.record) RETURN_IF_ERROR(hooks_.record(*trial));
    Learn(*index, *trial);
    if (hooks_.progress) hooks_.progress(summary_, *trial);
    return true;
  }

  absl::Status KeepFinished() {
    while (!in_flight_.empty()) {
      ASSIGN_OR_RETURN(const bool finished, FinishOne(absl::ZeroDuration()));
      if (!finished) break;
    }
    return absl::OkStatus();
  }

  void Learn(uint64_t index, const Trial& trial) {
    const double latency_ns = trial.measurement.latency_ns_median;
    strategy_.Tell(index, trial.outcome, latency_ns);
    ++summary_.done;
    ++summary_.outcomes[trial.outcome];
    if (trial.outcome != Outcome::kOk) return;
    if (summary_.best.has_value() && summary_.best->measurement.latency_ns_median <= latency_ns) {
      return;
    }
    summary_.best = trial;
    evaluator_.SetRival(latency_ns);
  }

  const Space& space_;
  Strategy& strategy_;
  Evaluator& evaluator_;
  const SweepBudget budget_;
  const SweepHooks& hooks_;
  const absl::Time deadline_;
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
