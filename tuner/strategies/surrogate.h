// SPDX-License-Identifier: Apache-2.0
// Search guided by a Gaussian process of the log of the latency. Internal to tuner/strategies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tuner/strategies/candidate_model.h"
#include "tuner/strategies/gaussian_process.h"
#include "tuner/strategies/geometry.h"
#include "tuner/strategies/prior.h"
#include "tuner/strategies/search.h"

namespace tune {

class Surrogate : public Search {
 public:
  explicit Surrogate(const StrategyInput& input);
  ~Surrogate() override;

  std::optional<double> ImprovementChance() const override { return improvement_chance_; }
  // How far what was measured bears the prior out: about 1 if fully, 0 if not at all. 0 if there is
  // no prior. 1 before anything is measured.
  double prior_slope() const { return prior_slope_; }
  bool has_prior() const { return !prior_.empty(); }

 protected:
  std::optional<uint64_t> Propose() override;
  void Asked(uint64_t index) override;
  void Learned(const Observation& observation) override;

 private:
  enum class State { kPending, kOk, kFailed };
  struct Point {
    uint64_t index = 0;
    std::vector<uint16_t> digits;
    State state = State::kPending;
    double log_latency = 0;  // kOk
    double prior = 0;        // what the prior says of it
  };
  // Points as a model wants them; nothing for pending ones. The unit is the deviation of what the
  // prior leaves to explain.
  struct Columns {
    std::vector<std::optional<double>> values;
    std::vector<std::optional<double>> ones;
    std::vector<std::optional<double>> prior;
    double unit = 1;
    double best_value = 0;
    size_t told = 0;
  };
  // The model's prediction before the points' residuals correct it.
  struct Trend {
    double level = 0;
    double slope = 0;               // of the prior
    std::vector<double> residuals;  // whitened
    double variance = 0;
  };

  bool MayModel() const;
  bool IsRefitDue() const;
  // The config farthest from all that are known: of the candidates, or of some given.
  std::optional<uint64_t> Spread();
  std::optional<uint64_t> Farthest(absl::Span<const uint64_t> of);
  // Before there is a model: by turns one of the prior's best, and one in which the prior has no
  // say.
  std::optional<uint64_t> Start();
  void Refit();
  void RefreshCandidates();
  void WeighPrior();
  void RefreshPrior();
  // Keeps at most `count` of the points with results: the best half, and others at random.
  void Thin(size_t count, std::vector<size_t>& points);
  void FitShape(std::vector<size_t> fitted);
  Columns ColumnsOf(const std::vector<size_t>& points) const;
  Trend FitTrend(const Columns& columns) const;
  std::optional<uint64_t> MostPromising();

  const Geometry geometry_;
  Prior prior_;
  std::vector<uint64_t> prior_best_;
  std::vector<Prediction> prior_of_candidates_;
  double prior_slope_ = 0;  // as last fitted: how far the prior is borne out
  ProcessShape shape_;
  std::vector<Point> points_;
  std::unordered_map<uint64_t, size_t> point_of_;  // by index
  size_t starts_ = 0;
  size_t told_ = 0;
  size_t ok_ = 0;
  size_t told_at_refit_ = 0;
  std::unique_ptr<CandidateTable> candidates_;
  std::vector<float> nearest_;  // of the candidates: how far the nearest of the spread points is
  size_t spread_points_ = 0;    // that nearest_ knows of
  std::unique_ptr<CandidateModel> model_;
  std::vector<size_t> model_points_;  // in the order of the model's
  std::optional<double> improvement_chance_;
};

}  // namespace tune
