// SPDX-License-Identifier: Apache-2.0
// What a source of prior results says of every config, also of those that it lacks. Internal to
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

// Of the log of a latency.
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

  // Some configs are held out. This is the part of their variance that the others predict: at most
  // 1, and 0 or less where configs say nothing about each other. 1 where they are too few to tell.
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
