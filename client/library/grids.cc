// SPDX-License-Identifier: Apache-2.0
#include "client/library/grids.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/library/snapshot.h"
#include "server/records/lookup/reason.h"

namespace tune::library {
namespace {

using server::LookupAnswer;
using server::LookupQuery;
using server::Match;

// The band of what another device says is so many times as wide.
constexpr double kSiblingDoubt = 2;

std::optional<int64_t> DimOf(const Problem& problem, const std::string& name) {
  for (const auto& [dim, value] : problem.dims) {
    if (dim == name) return value;
  }
  return std::nullopt;
}

// May the grid speak for the problem? Then its place on the grid's axes.
std::optional<std::vector<int64_t>> PlaceOn(const Grid& grid, const KernelRules& kernel,
                                            const LookupQuery& query) {
  if (grid.kernel_hash != kernel.hash || grid.target != query.target ||
      grid.dtype != ToText(query.problem.dtype) || grid.grid.shapes.empty()) {
    return std::nullopt;
  }
  for (const auto& [name, value] : grid.fixed) {
    if (DimOf(query.problem, name) != value) return std::nullopt;
  }
  std::vector<int64_t> place;
  for (const std::string& axis : grid.grid.axes) {
    const std::optional<int64_t> value = DimOf(query.problem, axis);
    if (!value) return std::nullopt;
    place.push_back(*value);
  }
  const auto counts = std::count_if(kernel.dims.begin(), kernel.dims.end(), [](const auto& dim) {
    return dim.match != server::DimMatch::kIgnored;
  });
  if (static_cast<size_t>(counts) != place.size() + grid.fixed.size()) return std::nullopt;
  return place;
}

Expectation ExpectationOf(const ShapeGrid& grid, const GridChoice& choice) {
  Expectation expectation{.basis = Basis::kNeighbours,
                          .loss = choice.loss,
                          .loss_low = choice.loss_low,
                          .loss_high = choice.loss_high};
  for (const NeighbourWeight& one : choice.neighbours) {
    const ShapeGrid::Shape& shape = grid.shapes[one.shape];
    uint32_t loss = shape.losses[choice.config];
    if (loss == ShapeGrid::kUnknown) loss = shape.loss_of_unknown;
    Neighbour& neighbour = expectation.neighbours.emplace_back();
    for (size_t axis = 0; axis < grid.axes.size(); ++axis) {
      neighbour.dims.emplace_back(grid.axes[axis], shape.dims[axis]);
    }
    neighbour.weight = one.weight;
    neighbour.loss = loss / double{ShapeGrid::kLossMax};
  }
  return expectation;
}

void MakeSibling(Expectation& expectation) {
  expectation.basis = Basis::kSibling;
  expectation.loss_low /= kSiblingDoubt;
  expectation.loss_high *= kSiblingDoubt;
}

Expectation Measured(const db::RecordRow& record) {
  const Measurement& measured = record.trial.measurement;
  const double median = measured.latency_ns_median;
  return {.basis = Basis::kMeasured,
          .loss_high = median > 0 ? std::max(0.0, measured.latency_ns_high / median - 1) : 0};
}

// What the record's own device says of its config for this problem.
Expectation ExpectOf(const Snapshot& snapshot, const KernelRules& kernel, const LookupQuery& query,
                     const LookupAnswer& found) {
  for (const Grid& grid : snapshot.GridsOf(kernel.name)) {
    const auto place = PlaceOn(grid, kernel, query);
    if (grid.device != found.record->key.device_name || !place) continue;
    const std::optional<GridChoice> choice = ExpectLoss(grid.grid, *place, *found.config);
    if (!choice) return {};
    Expectation expectation = ExpectationOf(grid.grid, *choice);
    if (found.match == Match::kOtherDevice) MakeSibling(expectation);
    return expectation;
  }
  return {};
}

// The newest record of a shape of a grid.
server::LookupIndex::Record RecordOf(const Snapshot& snapshot, const KernelRules& kernel,
                                     const Grid& grid, const Neighbour& shape) {
  const auto is_of = [&](const db::RecordRow& record) {
    const db::TrialKey& key = record.key;
    const auto equal = [&](const auto& dim) { return DimOf(key.problem, dim.first) == dim.second; };
    return key.device_name == grid.device && key.kernel_hash == grid.kernel_hash &&
           key.target == grid.target && key.cache_mode == CacheMode::kCold &&
           ToText(key.problem.dtype) == grid.dtype &&
           std::all_of(grid.fixed.begin(), grid.fixed.end(), equal) &&
           std::all_of(shape.dims.begin(), shape.dims.end(), equal);
  };
  for (const server::LookupIndex::Record& record : snapshot.index().Records(kernel.name)) {
    if (is_of(*record)) return record;  // newest first
  }
  return nullptr;
}

// The device itself, else its siblings, the one with the most shapes first.
std::vector<const Grid*> InOrder(const Snapshot& snapshot, const KernelRules& kernel,
                                 const std::string& device) {
  std::vector<const Grid*> grids;
  for (const Grid& grid : snapshot.GridsOf(kernel.name)) grids.push_back(&grid);
  const auto rank = [&](const Grid* grid) {
    return std::pair(grid->device == device, grid->grid.shapes.size());
  };
  std::stable_sort(grids.begin(), grids.end(),
                   [](const Grid* a, const Grid* b) { return a->device < b->device; });
  std::stable_sort(grids.begin(), grids.end(),
                   [&](const Grid* a, const Grid* b) { return rank(a) > rank(b); });
  return grids;
}

}  // namespace

const char* BasisName(Basis basis) {
  switch (basis) {
    case Basis::kMeasured:
      return "measured";
    case Basis::kNeighbours:
      return "neighbours";
    case Basis::kSibling:
      return "sibling";
    case Basis::kNothing:
      break;
  }
  return "nothing";
}

Expectation AskGrids(const Snapshot& snapshot, const KernelRules& kernel, const ConfigRules& rules,
                     const LookupQuery& query, LookupAnswer& found) {
  if (found.match == Match::kExact) return Measured(*found.record);
  if (found.match == Match::kBucketed || found.match == Match::kOtherDevice) {
    return ExpectOf(snapshot, kernel, query, found);
  }
  for (const Grid* const grid : InOrder(snapshot, kernel, query.device_name)) {
    const auto place = PlaceOn(*grid, kernel, query);
    if (!place) continue;
    const std::optional<GridChoice> choice = ChooseConfig(
        grid->grid, *place, [&](const Config& config) { return rules.IsValid(config); });
    if (!choice) continue;
    Expectation expectation = ExpectationOf(grid->grid, *choice);
    const bool elsewhere = grid->device != query.device_name;
    if (elsewhere && found.record != nullptr) return {};  // of another source, but of this device
    if (elsewhere) MakeSibling(expectation);
    if (found.record == nullptr) {
      found.record = RecordOf(snapshot, kernel, *grid, expectation.neighbours.front());
      if (found.record == nullptr) {
        found.reason = "the snapshot lacks the records of its grids";
        return {};
      }
      found.match = elsewhere ? Match::kOtherDevice : Match::kNearest;
      found.reason = ExplainMatch(found.match, query, *found.record, kernel.Policy().dims,
                                  kernel.hash);
    }
    found.config = &grid->grid.configs[choice->config];
    if (const size_t count = expectation.neighbours.size(); count > 1) {
      absl::StrAppend(&found.reason, "; its config is chosen from the sweeps of ", count,
                      " shapes");
    }
    return expectation;
  }
  return {};
}

}  // namespace tune::library
