// SPDX-License-Identifier: Apache-2.0
// What other devices, shapes and versions say about a space: for each config the log of its latency
// over the best, as far as it is known, and how far that is to be trusted here.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "tuner/space/space.h"
#include "tuner/strategies/geometry.h"
#include "tuner/strategies/source_fit.h"
#include "tuner/strategy.h"

namespace tune {

class Prior {
 public:
  // A source whose latencies do not follow from its configs is passed over: what does not predict
  // itself predicts nothing. `space` and `geometry` must outlive it.
  Prior(const Space& space, const Geometry& geometry,
        const std::vector<PriorObservation>& observations);

  bool empty() const { return sources_.empty(); }

  // The shape of a process that fits the sources, as far as they agree with what one of its shape
  // predicts: which params matter carries over even where the ranking does not. PriorShape() if
  // there are no sources.
  ProcessShape ExpectedShape() const;

  // The mean over the sources of the log of a config's latency over the best, at most kPriorCeiling
  // for each: the source's own where it has the config, else of what is near. What failed there is
  // at the ceiling.
  double LogRatio(uint64_t index, absl::Span<const uint16_t> digits) const;

  // The configs that the sources recorded, the best first by the mean, at most `count`.
  std::vector<uint64_t> Best(size_t count) const;

  // Weighs the sources by how well they rank what was measured here: pairs of index and log of
  // latency. Whether that changed anything.
  bool Weigh(const std::vector<std::pair<uint64_t, double>>& measured);

 private:
  struct Source {
    double trust = 1;
    double weight = 1;
    SourceFit fit;
    std::unordered_map<uint64_t, float> log_ratios;
    std::vector<uint64_t> anchors;  // from which the ratios of other configs are guessed
    std::vector<std::vector<uint16_t>> anchor_digits;
  };
  // Chooses the anchors.
  void Anchor(Source& source, uint64_t seed) const;
  double Guess(const Source& source, absl::Span<const uint16_t> digits) const;
  double Of(const Source& source, uint64_t index, absl::Span<const uint16_t> digits) const;

  const Space& space_;
  const Geometry& geometry_;
  std::vector<Source> sources_;
};

// Twice as slow or ten times: neither is worth a try.
inline constexpr double kPriorCeiling = 0.7;

}  // namespace tune
