// SPDX-License-Identifier: Apache-2.0
// What whole sweeps say of a problem that nobody tuned: the daemon's rule (docs/lookup.md), over
// the grids of a snapshot.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/library/kernel_rules.h"
#include "server/records/lookup/index.h"
#include "tuner/transfer/shape_grid.h"

namespace tune::library {

class Snapshot;

// One kernel's sweeps on one device, in one dtype.
struct Grid {
  std::string kernel_hash;
  std::string target;
  std::string device;
  std::string dtype;
  std::vector<std::pair<std::string, int64_t>> fixed;  // dims that must be equal
  ShapeGrid grid;
};

// What an expected loss rests on.
enum class Basis { kNothing, kMeasured, kNeighbours, kSibling };

struct Neighbour {
  std::vector<std::pair<std::string, int64_t>> dims;  // those that may differ
  double weight = 0;
  double loss = 0;
};

// What a config is expected to lose against the best there would be. Shares.
struct Expectation {
  Basis basis = Basis::kNothing;
  double loss = 0;
  double loss_low = 0;  // nine of ten lie between
  double loss_high = 0;
  std::vector<Neighbour> neighbours;
};

// "nothing", "measured", "neighbours", "sibling".
const char* BasisName(Basis basis);

// Completes what a look-up found. Where nobody tuned the problem, nor its bucket, the sweeps of
// other shapes choose the config: then `found.config` points into the snapshot.
Expectation AskGrids(const Snapshot& snapshot, const KernelRules& kernel, const ConfigRules& rules,
                     const server::LookupQuery& query, server::LookupAnswer& found);

}  // namespace tune::library
