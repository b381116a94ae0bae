// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/grids.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "client/libtune/snapshot.h"
#include "tuner/kernel/launch_sizes_of.h"

namespace tune::library {
namespace {

using lookup::Query;

std::optional<int64_t> DimOf(const Problem& problem, const std::string& name) {
  for (const auto& [dim, value] : problem.dims) {
    if (dim == name) return value;
  }
  return std::nullopt;
}

// May the grid speak for the problem? Then its place on the grid's axes.
std::optional<std::vector<int64_t>> PlaceOn(const Grid& grid, const SnapshotKernel& kernel,
                                            const Query& query) {
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
  const auto counts =
      std::count_if(kernel.spec.dims.begin(), kernel.spec.dims.end(),
                    [](const auto& dim) { return dim.match != lookup::DimMatch::kIgnored; });
  if (static_cast<size_t>(counts) != place.size() + grid.fixed.size()) return std::nullopt;
  return place;
}

// The newest record of a shape of a grid.
lookup::RecordPtr RecordOf(const Snapshot& snapshot, const SnapshotKernel& kernel, const Grid& grid,
                           const ShapeGrid::Shape& shape) {
  const lookup::KernelPolicy policy = kernel.Policy();
  const auto is_of = [&](const lookup::Record& record) {
    const TrialKey& key = record.key;
    const auto equal = [&](const auto& dim) { return DimOf(key.problem, dim.first) == dim.second; };
    for (size_t axis = 0; axis < shape.dims.size(); ++axis) {
      if (DimOf(key.problem, grid.grid.axes[axis]) != shape.dims[axis]) return false;
    }
    return key.device_name == grid.device && key.kernel_hash == grid.kernel_hash &&
           policy.HasHeadersOf(key) && key.target == grid.target &&
           key.cache_mode == CacheMode::kCold && ToText(key.problem.dtype) == grid.dtype &&
           std::all_of(grid.fixed.begin(), grid.fixed.end(), equal);
  };
  const lookup::Index& index = snapshot.IndexOf(kernel.spec.name);
  for (const lookup::RecordPtr& record : index.Records(kernel.spec.name)) {
    if (is_of(*record)) return record;  // newest first
  }
  return nullptr;
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

std::vector<lookup::SpeakingGrid> SpeakingGrids(const Snapshot& snapshot,
                                                const SnapshotKernel& kernel, const Query& query) {
  std::vector<lookup::SpeakingGrid> speaking;
  // Made when the first is asked for.
  const auto launches = std::make_shared<std::optional<LaunchSizes>>();
  const auto blocks_of = [&kernel, &query, launches](const Config& config) -> int64_t {
    if (!kernel.rules.ok()) return 0;
    if (!*launches) *launches = LaunchSizesOf(**kernel.rules, query.problem, query.target);
    return (*launches)->Blocks(config);
  };
  for (const Grid& grid : snapshot.GridsOf(kernel.spec.name)) {
    std::optional<std::vector<int64_t>> place = PlaceOn(grid, kernel, query);
    if (!place) continue;
    speaking.push_back({.device_name = grid.device,
                        .grid = &grid.grid,
                        .place = *std::move(place),
                        .blocks_of = blocks_of,
                        .record_of = [&snapshot, &kernel, &grid](size_t shape) {
                          return RecordOf(snapshot, kernel, grid, grid.grid.shapes[shape]);
                        }});
  }
  return speaking;
}

}  // namespace tune::library
