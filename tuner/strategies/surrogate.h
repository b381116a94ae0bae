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
#include "tuner/strategies/search.h"

namespace tune {

class Surrogate : public Search {
 public:
  explicit Surrogate(const StrategyInput& input);
  ~Surrogate() override;

  std::optional<double> ImprovementChance() const override { return improvement_chance_; }

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
  };

  bool MayModel() const;
  bool IsRefitDue() const;
  // A config far from all that are known, of some drawn at random.
  std::optional<uint64_t> Spread();
  void Refit();
  void RefreshCandidates();
  // The points that a model is made of: all, or the best, the latest and some others.
  std::vector<size_t> ActivePoints();
  // The points' values for the model, standardised; nothing where it is not known yet.
  std::vector<std::optional<double>> ModelValues(const std::vector<size_t>& points) const;
  std::optional<uint64_t> MostPromising();

  const Geometry geometry_;
  ProcessShape shape_;
  std::vector<Point> points_;
  std::unordered_map<uint64_t, size_t> point_of_;  // by index
  size_t told_ = 0;
  size_t ok_ = 0;
  size_t told_at_refit_ = 0;
  std::unique_ptr<CandidateTable> candidates_;
  std::unique_ptr<CandidateModel> model_;
  std::vector<size_t> model_points_;  // in the order of the model's
  std::optional<double> improvement_chance_;
};

}  // namespace tune
