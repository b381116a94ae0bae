// SPDX-License-Identifier: Apache-2.0
// What whole sweeps of other shapes add to a look-up: which config to take where nobody tuned the
// problem, and what a config is expected to lose (docs/lookup.md).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/fields.h"
#include "lookup/index.h"
#include "lookup/record.h"
#include "tuner/transfer/shape_grid.h"

namespace tune::lookup {

// What an expected loss rests on. Values are those of the wire.
enum class Basis { kNothing = 0, kMeasured = 1, kNeighbours = 2, kSibling = 3 };

struct Neighbour {
  std::vector<std::pair<std::string, int64_t>> dims;  // those that may differ
  double weight = 0;
  double loss = 0;  // of the answer's config there; what an unknown one counts as
};
TUNE_FIELDS(Neighbour, dims, weight, loss);

// What an answer's config is expected to lose against the best there would be. Shares.
struct Expectation {
  Basis basis = Basis::kNothing;
  double loss = 0;
  double loss_low = 0;  // nine of ten lie between
  double loss_high = 0;
  std::vector<Neighbour> neighbours;
  bool chosen_between = false;  // by the grid
};
TUNE_FIELDS(Expectation, basis, loss, loss_low, loss_high, neighbours, chosen_between);

// The sweeps of a device that may speak for a problem: those of its kernel's source, for its
// target, in its dtype, and equal in the dims that must be.
struct SpeakingGrid {
  std::string device_name;
  const ShapeGrid* grid = nullptr;
  std::vector<int64_t> place;  // of the problem, on the grid's axes
  CountBlocks blocks_of;       // that configs have at the problem; null: not known
  // The newest record of one of grid->shapes; null: it is not there.
  std::function<RecordPtr(size_t shape)> record_of;
};

// An interval of a measurement that reaches so far above it says nothing of what the config loses.
inline constexpr double kNoisyLoss = 0.2;

// Of the record of this very problem: it loses nothing, as far as its interval tells.
Expectation ExpectMeasured(const Record& record);

// Completes what a look-up found by what the grids say. Where nobody tuned the problem, nor its
// bucket, they choose the config: the device's own, else those of the sibling with the most shapes.
// Then `found.config` points into a grid. `policy` and `kernel_hash` are the kernel's.
Expectation AskGrids(std::vector<SpeakingGrid> grids, const Query& query,
                     const KernelPolicy& policy, const std::string& kernel_hash,
                     AcceptConfig accept, Answer& found);

}  // namespace tune::lookup
