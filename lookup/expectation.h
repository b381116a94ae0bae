// SPDX-License-Identifier: Apache-2.0
// Whole sweeps of other shapes improve a look-up: they choose a config for a problem that was never
// tuned, and estimate how much slower than the best a config is expected to be (docs/lookup.md).
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

// The evidence behind an expected loss. Values are those of the wire.
enum class Basis { kNothing = 0, kMeasured = 1, kNeighbours = 2, kSibling = 3 };

struct Neighbour {
  std::vector<std::pair<std::string, int64_t>> dims;  // those that may differ
  double weight = 0;
  double loss = 0;  // of the answer's config there; what an unknown one counts as
};
TUNE_FIELDS(Neighbour, dims, weight, loss);

// The expected loss of an answer's config against the best possible config, as shares.
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

// The expectation of a record of the very problem asked for: no loss, to as far as its interval
// reaches above the latency. If the interval is too wide to tell (TooNoisyToTell), `loss_high` is
// its width, which is above kNoisyWidth.
Expectation ExpectMeasured(const Record& record);

// Completes the answer `found` from the grids. If neither the problem nor its bucket was tuned, the
// grids choose the config: the device's own, else those of the sibling with the most shapes.
// `found.config` then points into a grid. `policy` and `kernel_hash` are the kernel's.
Expectation AskGrids(std::vector<SpeakingGrid> grids, const Query& query,
                     const KernelPolicy& policy, const std::string& kernel_hash,
                     AcceptConfig accept, Answer& found);

}  // namespace tune::lookup
