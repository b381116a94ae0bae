// SPDX-License-Identifier: Apache-2.0
// The grids of a snapshot that may speak for a problem that nobody tuned (docs/lookup.md).
#pragma once

#include <vector>

#include "client/libtune/config_rules.h"
#include "lookup/expectation.h"
#include "lookup/index.h"
#include "lookup/snapshot_json.h"

namespace tune::library {

using lookup::Basis;
using lookup::Expectation;
using lookup::Neighbour;
using Grid = lookup::SnapshotGrid;

class Snapshot;

// "nothing", "measured", "neighbours", "sibling".
const char* BasisName(Basis basis);

// They last as long as what they are made of.
std::vector<lookup::SpeakingGrid> SpeakingGrids(const Snapshot& snapshot,
                                                const SnapshotKernel& kernel,
                                                const lookup::Query& query);

}  // namespace tune::library
