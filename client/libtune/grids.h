// SPDX-License-Identifier: Apache-2.0
// The grids of a snapshot that may speak for a problem that nobody tuned (docs/lookup.md).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/libtune/kernel_rules.h"
#include "lookup/expectation.h"
#include "lookup/index.h"
#include "tuner/transfer/shape_grid.h"

namespace tune::library {

using lookup::Basis;
using lookup::Expectation;
using lookup::Neighbour;

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

// "nothing", "measured", "neighbours", "sibling".
const char* BasisName(Basis basis);

// `target` is the query's. They last as long as what they are made of.
std::vector<lookup::SpeakingGrid> SpeakingGrids(const Snapshot& snapshot, const KernelRules& kernel,
                                                const Target& target, const lookup::Query& query);

}  // namespace tune::library
