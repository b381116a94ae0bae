// SPDX-License-Identifier: Apache-2.0
// What other devices, shapes and versions say about a space: for each config the log of its latency
// over the best, as far as it is known, and how far that is to be trusted here.
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

  // The log of a config's latency over the best, at most kPriorCeiling in the mean: what the
  // sources have of it, and with less weight what a process predicts for those that lack it. What
  // failed there is at the ceiling.
  Prediction LogRatio(uint64_t index, absl::Span<const uint16_t> digits);

  // The configs that the sources recorded, the best first by the mean, at most `count`.
  std::vector<uint64_t> Best(size_t count);

  // Weighs the sources by how well they rank what was measured here: pairs of index and log of
  // latency. Whether that changed anything.
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

// Twice as slow or ten times: neither is worth a try.
inline constexpr double kPriorCeiling = 0.7;

}  // namespace tune
