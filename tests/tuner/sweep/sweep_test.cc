// SPDX-License-Identifier: Apache-2.0
#include "tuner/sweep/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace tune {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

Space TestSpace(int64_t size = 20) {
  SpaceParam param = {"X", {}};
  for (int64_t i = 0; i < size; ++i) param.values.emplace_back(i);
  return Space::Build({.params = {param}}).value();
}

int64_t X(const Config& config) { return std::get<int64_t>(config.entries[0].second); }

// X = 7 is the fastest; X % 5 == 4 does not compile; X % 5 == 3 hangs.
Trial TrialOf(const Config& config) {
  Trial trial;
  trial.config = config;
  const int64_t x = X(config);
  if (x % 5 == 4) {
    trial.outcome = Outcome::kCompileFailed;
  } else if (x % 5 == 3) {
    trial.outcome = Outcome::kTimedOut;
  } else {
    trial.measurement.latency_ns_median = 1000 + 10.0 * static_cast<double>(std::abs(x - 7));
  }
  return trial;
}

// Finishes the newest trial first, or nothing at all while `stuck`.
class FakeEvaluator : public Evaluator {
 public:
  explicit FakeEvaluator(size_t capacity) : capacity_(capacity) {}

  size_t capacity() const override { return capacity_; }
  absl::Status Start(const Config& config) override {
    if (in_flight_.size() >= capacity_) return absl::InternalError("over capacity");
    if (!started_.insert(X(config)).second) return absl::InternalError("started twice");
    in_flight_.push_back(config);
    most_in_flight_ = std::max(most_in_flight_, in_flight_.size());
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<Trial>> Next(absl::Duration wait) override {
    EXPECT_LE(wait, absl::Milliseconds(50));
    if (!next_status_.ok()) return next_status_;
    if (stuck_) now_ += wait;
    if (in_flight_.empty() || stuck_) return std::nullopt;
    const Trial trial = TrialOf(in_flight_.back());
    in_flight_.pop_back();
    return trial;
  }
  absl::StatusOr<std::vector<Trial>> Remeasure(const std::vector<Config>&) override {
    return absl::UnimplementedError("a search measures nothing again");
  }
  void SetRival(double latency_ns) override { rivals_.push_back(latency_ns); }
  absl::Time Now() const override { return now_; }

  const size_t capacity_;
  absl::Time now_ = absl::UnixEpoch();
  absl::Status next_status_;
  bool stuck_ = false;
  std::deque<Config> in_flight_;
  std::set<int64_t> started_;
  size_t most_in_flight_ = 0;
  std::vector<double> rivals_;
};

struct Fixture {
  explicit Fixture(size_t capacity = 4, const std::string& strategy_name = "exhaustive")
      : evaluator(capacity), strategy(*MakeStrategy(strategy_name, space, {.seed = 1})) {
    hooks.store = [this](Trial& trial) {
      trial.id = ++stored;
      return absl::OkStatus();
    };
  }
  absl::StatusOr<SweepSummary> Run(const SweepBudget& budget = {},
                                   const std::vector<Trial>& known = {}) {
    return RunSweep(space, *strategy, evaluator, budget, known, hooks);
  }

  Space space = TestSpace();
  FakeEvaluator evaluator;
  std::unique_ptr<Strategy> strategy;
  SweepHooks hooks;
  int64_t stored = 0;
};

TEST(RunSweep, KeepsAtMostTheGivenNumberInFlight) {
  Fixture f(6);
  EXPECT_EQ(f.Run({.trials = 12, .in_flight = 3}).value().done, 12);
  EXPECT_EQ(f.evaluator.most_in_flight_, 3);
}

TEST(RunSweep, TriesEveryConfigWithManyInFlight) {
  Fixture f(6);
  std::vector<uint64_t> progress;
  f.hooks.progress = [&](const SweepSummary& summary, const Trial& trial) {
    EXPECT_EQ(trial.id, f.stored);
    progress.push_back(summary.done);
  };
  const SweepSummary summary = f.Run().value();
  EXPECT_EQ(summary.done, 20);
  EXPECT_EQ(summary.reused, 0);
  EXPECT_EQ(f.stored, 20);
  EXPECT_EQ(f.evaluator.most_in_flight_, 6);
  EXPECT_THAT(summary.outcomes,
              UnorderedElementsAre(Pair(Outcome::kOk, 12), Pair(Outcome::kCompileFailed, 4),
                                   Pair(Outcome::kTimedOut, 4)));
  EXPECT_EQ(X(summary.best->config), 7);
  EXPECT_GT(summary.best->id, 0);
  EXPECT_FALSE(summary.cancelled);
  EXPECT_EQ(progress.size(), 20);
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  EXPECT_TRUE(std::is_sorted(f.evaluator.rivals_.rbegin(), f.evaluator.rivals_.rend()));
  EXPECT_EQ(f.evaluator.rivals_.back(), 1000);
}

TEST(RunSweep, KeepsToItsBudgetOfTrials) {
  for (uint64_t trials : {1, 5, 20, 100}) {
    Fixture f(8, "random");
    EXPECT_EQ(f.Run({.trials = trials})->done, std::min<uint64_t>(trials, 20));
    EXPECT_EQ(f.evaluator.started_.size(), std::min<uint64_t>(trials, 20));
  }
}

TEST(RunSweep, StartsNothingOnceItsTimeIsUp) {
  Fixture f;
  const SweepSummary summary = f.Run({.time = absl::ZeroDuration()}).value();
  EXPECT_EQ(summary.done, 0);
  EXPECT_TRUE(f.evaluator.started_.empty());
  EXPECT_FALSE(summary.best.has_value());
}

TEST(RunSweep, TrialsInFlightAreDroppedWhenTheTimeIsUp) {
  Fixture f(4);
  f.hooks.store = [&](Trial&) {
    f.evaluator.stuck_ = ++f.stored == 5;
    return absl::OkStatus();
  };
  const absl::Time start = f.evaluator.now_;
  const SweepSummary summary = f.Run({.time = absl::Milliseconds(120)}).value();
  EXPECT_EQ(f.evaluator.now_ - start, absl::Milliseconds(120));
  EXPECT_EQ(summary.end, SweepEnd::kTime);
  EXPECT_FALSE(summary.cancelled);
  EXPECT_EQ(summary.done, 5);
  EXPECT_EQ(f.stored, 5);
  EXPECT_EQ(summary.dropped, 4);
}

// The last trials of a strategy that is done may hang, too.
TEST(RunSweep, TheSpacesLastTrialsAreDroppedWhenTheTimeIsUp) {
  Fixture f(32);
  f.hooks.store = [&](Trial&) {
    f.evaluator.stuck_ = ++f.stored == 18;
    return absl::OkStatus();
  };
  const SweepSummary summary = f.Run({.time = absl::Milliseconds(50)}).value();
  EXPECT_EQ(summary.end, SweepEnd::kTime);
  EXPECT_EQ(summary.done, 18);
  EXPECT_EQ(summary.dropped, 2);
}

TEST(RunSweep, ReusesKnownTrialsAndCountsThemAgainstTheBudget) {
  Fixture f;
  std::vector<Trial> known;
  for (uint64_t index : {0, 7, 9, 7}) known.push_back(TrialOf(f.space.At(index)));
  known.push_back(known[0]);
  known.back().config.entries[0].second = int64_t{777};  // of no config of this space
  const SweepSummary summary = f.Run({.trials = 6}, known).value();
  EXPECT_EQ(summary.done, 6);
  EXPECT_EQ(summary.reused, 3);
  EXPECT_EQ(f.stored, 3);
  EXPECT_THAT(f.evaluator.started_, ElementsAre(1, 2, 3));
  EXPECT_EQ(X(summary.best->config), 7);
  EXPECT_EQ(f.evaluator.rivals_.front(), 1070);  // of X = 0; the rival is known from the start
}

TEST(RunSweep, DoesNothingWhenEverythingIsKnown) {
  Fixture f;
  std::vector<Trial> known;
  for (uint64_t i = 0; i < f.space.size(); ++i) known.push_back(TrialOf(f.space.At(i)));
  const SweepSummary summary = f.Run({}, known).value();
  EXPECT_EQ(summary.done, 20);
  EXPECT_EQ(summary.reused, 20);
  EXPECT_TRUE(f.evaluator.started_.empty());
}

TEST(RunSweep, ACancelledSweepKeepsWhatHasFinished) {
  Fixture f(4);
  std::atomic<bool> cancelled = false;
  f.hooks.cancelled = &cancelled;
  f.hooks.progress = [&](const SweepSummary& summary, const Trial&) {
    if (summary.done == 3) cancelled = true;
  };
  const SweepSummary summary = f.Run().value();
  EXPECT_TRUE(summary.cancelled);
  EXPECT_EQ(summary.done, 6);  // 3, and the 3 in flight that had finished
  EXPECT_EQ(f.stored, 6);
}

TEST(RunSweep, ACancelledSweepDoesNotWaitLongForASlowDisk) {
  Fixture f(4);
  std::atomic<bool> cancelled = false;
  f.hooks.cancelled = &cancelled;
  f.hooks.store = [&](Trial&) {
    f.evaluator.now_ += absl::Milliseconds(40);
    return absl::OkStatus();
  };
  f.hooks.progress = [&](const SweepSummary&, const Trial&) { cancelled = true; };
  EXPECT_EQ(f.Run()->done, 3);  // 1, and as many of the 3 in flight as 50 ms are enough for
}

TEST(RunSweep, ACancelledSweepDoesNotWaitForTheUnfinished) {
  Fixture f(4);
  std::atomic<bool> cancelled = true;
  f.hooks.cancelled = &cancelled;
  EXPECT_EQ(f.Run()->done, 0);
  EXPECT_TRUE(f.evaluator.started_.empty());

  cancelled = false;
  f.hooks.store = [&](Trial&) {
    cancelled = true;
    f.evaluator.stuck_ = true;
    return absl::OkStatus();
  };
  const SweepSummary summary = f.Run().value();
  EXPECT_TRUE(summary.cancelled);
  EXPECT_EQ(summary.done, 1);
  EXPECT_EQ(f.evaluator.in_flight_.size(), 3);
}

TEST(RunSweep, AFailingRecordHookEndsTheSweep) {
  Fixture f;
  f.hooks.store = [&](Trial&) {
    return ++f.stored == 3 ? absl::ResourceExhaustedError("disk full") : absl::OkStatus();
  };
  int reported = 0;
  f.hooks.progress = [&](const SweepSummary&, const Trial&) { ++reported; };
  EXPECT_EQ(f.Run().status(), absl::ResourceExhaustedError("disk full"));
  EXPECT_EQ(reported, 2);  // what is not stored is not believed
}

TEST(RunSweep, AFailingEvaluatorEndsTheSweep) {
  Fixture f;
  f.evaluator.next_status_ = absl::UnavailableError("device lost");
  EXPECT_EQ(f.Run().status(), absl::UnavailableError("device lost"));
}

}  // namespace
}  // namespace tune
