// SPDX-License-Identifier: Apache-2.0
// Predicts a prior source's result for every config, also for configs that it lacks. Internal to
// tuner/strategies.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "tuner/space/space.h"
#include "tuner/strategies/gaussian_process.h"
#include "tuner/strategies/geometry.h"

namespace tune {

// A prediction of the log of a latency.
struct Prediction {
  double mean = 0;
  double variance = 0;
};

// A Gaussian process fitted to some of a source's results.
class SourceProcess {
 public:
  // Pairs of config and log of latency, at least one. Some 30 ms. `geometry` must outlive it.
  SourceProcess(const Space& space, const Geometry& geometry,
                std::vector<std::pair<uint64_t, double>> log_latencies);

  // The share of variance among held-out configs that the others predict: at most 1, and 0 or less
  // if configs carry no information about each other. 1 if there are too few to judge.
  double explained() const { return explained_; }

  // Some 10 us.
  Prediction Predict(absl::Span<const uint16_t> digits) const;

 private:
  void Add(std::vector<uint16_t> digits, double value);
  std::vector<double> Correlations(absl::Span<const uint16_t> digits) const;
  // In units of unit_ and from mean_ on.
  Prediction PredictScaled(absl::Span<const uint16_t> digits) const;

  const Geometry& geometry_;
  double mean_ = 0;
  double unit_ = 1;
  double explained_ = 1;
  std::vector<double> rates_;  // 1 / length, of each axis
  ProcessFactor factor_;
  std::vector<std::vector<uint16_t>> points_;
  std::vector<double> whitened_;
  double variance_ = 1;  // of the signal
};

}  // namespace tune
