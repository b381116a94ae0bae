// SPDX-License-Identifier: Apache-2.0
// Prior knowledge of a space from other devices, shapes and versions: for each config the log of
// its latency over the best, if it is known, and how far to trust it here.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "tuner/space/space.h"
#include "tuner/strategies/geometry.h"
#include "tuner/strategies/source_process.h"
#include "tuner/strategies/strategy.h"

namespace tune {

class Prior {
 public:
  // A source whose latencies do not follow from its configs is passed over: what does not predict
  // itself predicts nothing. `space` and `geometry` must outlive it.
  Prior(const Space& space, const Geometry& geometry,
        const std::vector<PriorObservation>& observations);

  bool empty() const { return sources_.empty(); }

  // The log of a config's latency over the best; its mean is at most kPriorCeiling. It averages
  // what the sources have of the config. For a source that lacks it, a process predicts it, and
  // that has less weight. A config that failed there is at the ceiling.
  Prediction LogRatio(uint64_t index, absl::Span<const uint16_t> digits);

  // At most `count` of the configs that the sources recorded: those with the best mean, the best
  // first.
  std::vector<uint64_t> Best(size_t count);

  // Weighs the sources by how well they rank what was measured here, given as pairs of index and
  // log of latency. Returns whether that changed anything.
  bool Weigh(const std::vector<std::pair<uint64_t, double>>& measured);

 private:
  struct Source {
    double trust = 1;
    double weight = 1;
    std::unordered_map<uint64_t, double> log_ratios;
    SourceProcess process;
    std::unordered_map<uint64_t, Prediction> predicted = {};  // of configs that it lacks
  };
  static Prediction Of(Source& source, uint64_t index, absl::Span<const uint16_t> digits);

  const Space& space_;
  std::vector<Source> sources_;
};

// A config twice as slow as the best is no more worth a try than one ten times as slow.
inline constexpr double kPriorCeiling = 0.7;

}  // namespace tune
