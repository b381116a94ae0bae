// SPDX-License-Identifier: Apache-2.0
// A real kernel, swept on the real CPU device by the installed workers, with variants that do not
// compile, compute nonsense, crash and hang among the good ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/measure/sweep_evaluator.h"
#include "server/wire/spec.h"
#include "tests/server/supervision/scripted.h"
#include "tests/server/supervision/small_kernel.h"
#include "tuner/strategies/strategy.h"
#include "tuner/sweep/sweep.h"
#include "tuner/sweep/winner.h"

namespace tune::server {
namespace {

using testing::SizeIs;

class CpuSweepTest : public testing::Test {
 protected:
  CpuSweepTest() {
    workers_ = Workers::Create({.state_dir = dir_ / "state",
                                .worker_dir = WORKER_DIR,
                                .run_deadline = absl::Seconds(5)})
                   .value();
  }
  void Make(const std::string& faults) { Make(SmallKernel(faults).value(), {{"n", 5000}}); }
  void Make(std::shared_ptr<const Kernel> kernel, const std::map<std::string, int64_t>& dims) {
    kernel_ = std::move(kernel);
    problem_ = kernel_->MakeProblem(dims, "f32", "cpu").value();
    SweepEvaluatorOptions options = {.kernel = kernel_, .problem = problem_, .seed = 1};
    options.policy.samples_min = 3;
    options.policy.samples_max = 50;
    options.policy.seconds_max = 0.05;
    options.confirm_policy = options.policy;
    absl::StatusOr<std::unique_ptr<SweepEvaluator>> evaluator =
        SweepEvaluator::Create(*workers_, "cpu", options);
    ASSERT_TRUE(evaluator.ok()) << evaluator.status();
    evaluator_ = *std::move(evaluator);
  }
  std::vector<Trial> Sweep() {
    const Space space = kernel_->MakeSpace(problem_, evaluator_->traits()).value();
    auto strategy = MakeStrategy("exhaustive", space).value();
    std::vector<Trial> trials;
    SweepHooks hooks;
    hooks.store = [&](Trial& trial) {
      trial.id = static_cast<int64_t>(trials.size()) + 1;
      trials.push_back(trial);
      return absl::OkStatus();
    };
    hooks.progress = [](const SweepSummary&, const Trial&) {};
    absl::StatusOr<SweepSummary> summary = RunSweep(space, *strategy, *evaluator_, {}, {}, hooks);
    EXPECT_TRUE(summary.ok()) << summary.status();
    return trials;
  }

  TempDir dir_;
  std::unique_ptr<Workers> workers_;
  std::shared_ptr<const Kernel> kernel_;
  Problem problem_;
  std::unique_ptr<SweepEvaluator> evaluator_;
};

std::string ReadExample(const std::string& name) {
  std::ifstream file(EXAMPLE_DIR "/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

int64_t FaultOf(const Config& config) {
  for (const auto& [param, value] : config.entries) {
    if (param == "FAULT") return std::get<int64_t>(value);
  }
  return -1;
}

TEST_F(CpuSweepTest, GoodVariantsAreMeasuredAndBadOnesBlamed) {
  Make("[0, 1, 2, 3, 4]");
  const std::vector<Trial> trials = Sweep();
  ASSERT_THAT(trials, SizeIs(10));
  const std::map<int64_t, Outcome> expected = {{0, Outcome::kOk},
                                               {1, Outcome::kCompileFailed},
                                               {2, Outcome::kWrongResult},
                                               {3, Outcome::kFaulted},
                                               {4, Outcome::kTimedOut}};
  for (const Trial& trial : trials) {
    EXPECT_EQ(trial.outcome, expected.at(FaultOf(trial.config)))
        << ToText(trial.config) << ": " << trial.message;
    if (trial.outcome != Outcome::kOk) {
      EXPECT_NE(trial.message, "") << ToText(trial.config);
      continue;
    }
    EXPECT_GT(trial.measurement.latency_ns_median, 0);
    EXPECT_GT(trial.measurement.bytes_per_second, 0);
    EXPECT_EQ(trial.measurement.clock, Clock::kHost);
    EXPECT_GT(trial.compile_seconds, 0);
  }
  const Config default_config = kernel_->DefaultConfig(problem_, evaluator_->traits()).value();
  const Finals finals =
      MeasureFinals(trials, default_config, {.rounds_max = 3}, *evaluator_).value();
  absl::StatusOr<Winner> winner = NameWinner(finals, default_config);
  ASSERT_TRUE(winner.ok()) << winner.status();
  EXPECT_EQ(winner->best.outcome, Outcome::kOk);
  EXPECT_EQ(FaultOf(winner->best.config), 0);
  ASSERT_TRUE(winner->default_trial.has_value());
}

TEST_F(CpuSweepTest, ASecondSweepFindsEverythingCompiled) {
  Make("[0]");
  EXPECT_THAT(Sweep(), SizeIs(6));
  Make("[0]");
  EXPECT_THAT(Sweep(), SizeIs(6));
  EXPECT_EQ(evaluator_->compile_cache_hits(), 6u);
  EXPECT_EQ(evaluator_->worker_restarts(), 0u);
}

// Half of its variants add up in memory that a step zeroes.
TEST_F(CpuSweepTest, AKernelOfTwoStepsIsTunedLikeAnyOther) {
  absl::StatusOr<std::shared_ptr<const Kernel>> kernel =
      ReadKernel("split_sum.textproto", ReadExample("split_sum.textproto"),
                 {{"split_sum.cu", ReadExample("split_sum.cu")}});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  Make(*kernel, {{"rows", 3}, {"cols", 5000}});
  const std::vector<Trial> trials = Sweep();
  ASSERT_THAT(trials, SizeIs(12));
  for (const Trial& trial : trials) {
    EXPECT_EQ(trial.outcome, Outcome::kOk) << ToText(trial.config) << ": " << trial.message;
  }
}

}  // namespace
}  // namespace tune::server
