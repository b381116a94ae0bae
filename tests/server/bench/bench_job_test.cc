// SPDX-License-Identifier: Apache-2.0
#include "server/bench/bench_job.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace tune::server {
namespace {

// Finishes its trial at the third question, or never.
class SlowEvaluator : public Evaluator {
 public:
  size_t capacity() const override { return 1; }
  absl::Status Start(const Config& config) override {
    started_ = config;
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<Trial>> Next(absl::Duration) override {
    if (!ends_ || ++asked_ < 3) return std::nullopt;
    return Trial{.config = started_, .outcome = Outcome::kOk};
  }
  absl::StatusOr<std::vector<Trial>> Remeasure(const std::vector<Config>&) override {
    return absl::UnimplementedError("a bench confirms nothing");
  }
  void SetRival(double) override {}

  bool ends_ = true;
  int asked_ = 0;
  Config started_;
};

TEST(MeasureOneTest, IsTheTrialOfTheConfig) {
  SlowEvaluator evaluator;
  const Config config{.entries = {{"X", int64_t{7}}}};
  const absl::StatusOr<Trial> trial = MeasureOne(evaluator, config, [] { return false; });
  ASSERT_TRUE(trial.ok()) << trial.status();
  EXPECT_EQ(trial->config, config);
}

TEST(MeasureOneTest, EndsWhenItIsCancelled) {
  SlowEvaluator evaluator;
  evaluator.ends_ = false;
  int asked = 0;
  const absl::StatusOr<Trial> trial = MeasureOne(evaluator, {}, [&] { return ++asked > 5; });
  EXPECT_TRUE(absl::IsCancelled(trial.status()));
}

}  // namespace
}  // namespace tune::server
