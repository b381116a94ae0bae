// SPDX-License-Identifier: Apache-2.0
#include "server/replay/study.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/status_macros.h"
#include "tuner/device/replay/comparison.h"
#include "tuner/device/replay/play.h"
#include "tuner/device/replay/score.h"

namespace tune::server {
namespace {

using replay::MethodologyScore;
using replay::Played;

constexpr auto kProgressEvery = std::chrono::milliseconds(200);
constexpr uint32_t kBudgets[] = {25, 50, 100, 200};

// A run of a strategy on a space.
struct Run {
  size_t space = 0;
  size_t strategy = 0;
  uint32_t seed = 0;
  bool for_score = false;
  Played played;
};

class Study {
 public:
  Study(const StudyPlan& plan, const std::atomic<bool>& cancelled)
      : plan_(plan), cancelled_(cancelled) {
    for (size_t space = 0; space < plan.spaces.size(); ++space) {
      scores_.emplace_back(plan.spaces[space].recording());
      priors_.push_back(plan.prior.For(plan.spaces[space].recording()));
      for (size_t strategy = 0; strategy < plan.strategies.size(); ++strategy) {
        AddRuns(space, strategy, false);
        if (plan.score) AddRuns(space, strategy, true);
      }
    }
  }

  absl::StatusOr<v1::StrategyComparison> Go(const StudyProgress& progress) {
    const size_t thread_count =
        std::clamp<size_t>(std::thread::hardware_concurrency(), 1, runs_.size());
    std::vector<std::thread> threads;
    {
      MutexLock lock(mutex_);
      running_ = thread_count;
      for (size_t i = 0; i < thread_count; ++i) threads.emplace_back([this] { Work(); });
      while (running_ > 0) {
        changed_.wait_for(lock.native(), kProgressEvery);
        const uint32_t done = done_;
        lock.Unlock();
        progress(done, static_cast<uint32_t>(runs_.size()));
        lock.Lock();
      }
    }
    for (std::thread& thread : threads) thread.join();
    if (cancelled_) return absl::CancelledError("stopped");
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(failure_);
    return Summarised();
  }

 private:
  void AddRuns(size_t space, size_t strategy, bool for_score) {
    for (uint32_t seed = 1; seed <= plan_.seeds; ++seed) {
      runs_.push_back({.space = space, .strategy = strategy, .seed = seed, .for_score = for_score});
    }
  }

  void Work() {
    for (size_t i = next_++; i < runs_.size() && !cancelled_; i = next_++) {
      absl::StatusOr<Played> played = PlayOne(runs_[i]);
      MutexLock lock(mutex_);
      if (!played.ok()) {
        failure_ = played.status();
        next_ = runs_.size();  // the others stop too
        break;
      }
      runs_[i].played = *std::move(played);
      ++done_;
    }
    MutexLock lock(mutex_);
    --running_;
    changed_.notify_all();
  }

  absl::StatusOr<Played> PlayOne(const Run& run) const {
    replay::PlayOptions options{.strategy = plan_.strategies[run.strategy],
                                .seed = run.seed,
                                .in_flight = plan_.in_flight,
                                .prior = priors_[run.space],
                                .cancelled = &cancelled_};
    options.budget.trials = run.for_score ? scores_[run.space].evaluations() : plan_.budget_trials;
    return replay::Play(plan_.spaces[run.space], options);
  }

  std::vector<uint32_t> Budgets() const {
    std::vector<uint32_t> budgets;
    for (const uint32_t budget : kBudgets) {
      if (budget < plan_.budget_trials) budgets.push_back(budget);
    }
    budgets.push_back(plan_.budget_trials);
    return budgets;
  }

  v1::StrategyComparison Summarised() const {
    v1::StrategyComparison comparison;
    for (const uint32_t budget : Budgets()) comparison.add_budgets(budget);
    comparison.set_seeds(plan_.seeds);
    comparison.set_in_flight(plan_.in_flight);
    for (const std::string& name : plan_.prior.Names()) comparison.add_prior_sources(name);
    for (size_t space = 0; space < plan_.spaces.size(); ++space) {
      const replay::RecordedSpace& recorded = plan_.spaces[space];
      v1::ComparedRecording& compared = *comparison.add_recordings();
      *compared.mutable_recording() = Describe(recorded.recording());
      for (const uint32_t budget : Budgets()) {
        compared.add_random_ratios(replay::RandomMedianNs(recorded.recording(), budget) /
                                   recorded.optimum_ns());
      }
      compared.set_score_evaluations(static_cast<uint32_t>(scores_[space].evaluations()));
      for (size_t strategy = 0; strategy < plan_.strategies.size(); ++strategy) {
        *compared.add_runs() = RunsOf(space, strategy);
      }
    }
    for (size_t strategy = 0; strategy < plan_.strategies.size(); ++strategy) {
      *comparison.add_strategies() = OverAll(comparison, strategy);
    }
    return comparison;
  }

  v1::ComparedRuns RunsOf(size_t space, size_t strategy) const {
    std::vector<Played> played;
    std::vector<std::vector<double>> for_score;
    for (const Run& run : runs_) {
      if (run.space != space || run.strategy != strategy) continue;
      if (run.for_score) {
        for_score.push_back(run.played.best_ns);
      } else {
        played.push_back(run.played);
      }
    }
    const replay::RunsSummary summary =
        replay::Summarise(played, plan_.spaces[space].optimum_ns(), plan_.budget_trials);
    v1::ComparedRuns runs;
    for (const uint32_t budget : Budgets()) runs.add_ratios(summary.after[budget - 1].median);
    runs.set_within_5_percent(summary.within_5_percent);
    runs.set_hit_optimum(summary.hit_optimum);
    runs.set_overhead_us_median(summary.overhead_us_median);
    runs.set_evaluations_median(static_cast<uint32_t>(summary.evaluations_median));
    if (!for_score.empty()) runs.set_score(scores_[space].Of(for_score));
    for (const replay::RatioQuartiles& quartiles : summary.after) {
      runs.add_curve_low(quartiles.low);
      runs.add_curve_median(quartiles.median);
      runs.add_curve_high(quartiles.high);
    }
    return runs;
  }

  v1::ComparedStrategy OverAll(const v1::StrategyComparison& comparison, size_t strategy) const {
    v1::ComparedStrategy all;
    all.set_name(plan_.strategies[strategy]);
    for (int i = 0; i < comparison.budgets_size(); ++i) {
      std::vector<double> ratios;
      for (const v1::ComparedRecording& recording : comparison.recordings()) {
        ratios.push_back(recording.runs(static_cast<int>(strategy)).ratios(i));
      }
      all.add_ratios(replay::GeometricMean(ratios));
    }
    std::vector<double> overheads_us;
    const double count = comparison.recordings_size();
    for (const v1::ComparedRecording& recording : comparison.recordings()) {
      const v1::ComparedRuns& runs = recording.runs(static_cast<int>(strategy));
      all.set_within_5_percent(all.within_5_percent() + runs.within_5_percent() / count);
      all.set_hit_optimum(all.hit_optimum() + runs.hit_optimum() / count);
      all.set_score(all.score() + runs.score() / count);
      overheads_us.push_back(runs.overhead_us_median());
    }
    std::sort(overheads_us.begin(), overheads_us.end());
    all.set_overhead_us_median(replay::QuantileOf(overheads_us, 0.5));
    return all;
  }

  const StudyPlan& plan_;
  const std::atomic<bool>& cancelled_;
  std::vector<MethodologyScore> scores_;               // of each space
  std::vector<std::vector<PriorObservation>> priors_;  // for each space
  std::vector<Run> runs_;
  std::atomic<size_t> next_ = 0;

  Mutex mutex_;
  std::condition_variable changed_;
  uint32_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<v1::StrategyComparison> RunStudy(const StudyPlan& plan,
                                                const std::atomic<bool>& cancelled,
                                                const StudyProgress& progress) {
  return Study(plan, cancelled).Go(progress);
}

}  // namespace tune::server
