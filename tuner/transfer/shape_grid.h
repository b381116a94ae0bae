// SPDX-License-Identifier: Apache-2.0
// What whole sweeps of some shapes say about a shape that nobody tuned: the config to take there,
// and what it is expected to lose. docs/lookup.md describes the model; the Python package has the
// same (client/python/src/tunectl/_grid.py), held to tests/data/grid_cases.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "tuner/config.h"

namespace tune {

// Where a dim's value lies on its axis: log2, carried on below 1 so that different values stay
// different.
double AxisPosition(int64_t value);

inline constexpr size_t kGridConfigsMax = 64;  // of a sweep, the fastest
inline constexpr size_t kGridShapesMax = 64;

// A sweep as it is given to a grid: its ok configs, the fastest first, at most kGridConfigsMax.
struct SweptShape {
  std::vector<int64_t> dims;  // of the grid's axes
  std::vector<std::pair<Config, double>> latencies_ns;
  bool has_more = false;  // there were more ok configs, all of them slower
};

// How far the model was off where a shape was left out and the others were asked, as shares: 0.02
// is 2 % slower than the best. Made-up residuals stand in until there are enough of its own.
struct Residuals {
  uint32_t count = 0;        // shapes that were left out
  double mean = 0;           // of what was lost beyond what was predicted
  double low = 0;            // nine of ten lie between
  double high = 0;
  double nearest_octaves = 1;  // mean distance from a shape that was left out to the nearest
};

// One kernel's sweeps on one device, in one dtype, which differ in dims that may differ. A loss is
// in ten-thousandths of the best latency at its shape, at most kLossMax: whole numbers, so that all
// languages and hosts compute the same. Immutable once made.
struct ShapeGrid {
  static constexpr uint32_t kLossMax = 10000;  // twice as slow; how much slower does not matter
  static constexpr uint32_t kUnknown = 1u << 30;

  struct Shape {
    std::vector<int64_t> dims;
    std::vector<uint32_t> losses;  // of each of `configs`; kUnknown: it was not ok, or not kept
    uint32_t loss_of_unknown = 0;  // what such a config loses at least
    bool has_more = false;
  };
  std::vector<std::string> axes;  // names of the dims
  std::vector<Config> configs;
  std::vector<Shape> shapes;  // by dims
  Residuals residuals;
};

// A shape's say in an answer.
struct NeighbourWeight {
  size_t shape = 0;
  double weight = 0;  // all are 1 together
  double octaves = 0;  // distance over all axes
};

// Losses are shares: 0.02 is 2 % slower than the best config there would be.
struct GridChoice {
  size_t config = 0;
  double loss = 0;  // expected
  double loss_low = 0;  // nine of ten lie between
  double loss_high = 0;
  std::vector<NeighbourWeight> neighbours;  // the nearest first
};

// REQUIRES: every shape has as many dims as there are axes, and a config. Of equal dims the first
// counts, and of more than kGridShapesMax the first ones.
ShapeGrid MakeShapeGrid(std::vector<std::string> axes, const std::vector<SweptShape>& sweeps);

// The config with the least expected loss of those that `accept` takes; nothing if it takes none of
// the kGridConfigsMax best. `dims` in the order of the axes.
using AcceptConfig = absl::FunctionRef<bool(const Config&)>;
std::optional<GridChoice> ChooseConfig(const ShapeGrid& grid, absl::Span<const int64_t> dims,
                                       AcceptConfig accept);

// What one config is expected to lose; nothing if the grid does not have it.
std::optional<GridChoice> ExpectLoss(const ShapeGrid& grid, absl::Span<const int64_t> dims,
                                     const Config& config);

// A shape of the grid asked of the others.
struct LeftOut {
  size_t shape = 0;
  double expected = 0;      // before residuals are added
  double loss = 0;          // of the chosen config, as the shape's own sweep has it
  double nearest_loss = 0;  // of the nearest shape's winner
  double nearest_octaves = 0;
  GridChoice choice;        // by a grid without the shape
};
// Shapes of which the others know no config are left out of the answer as well.
std::vector<LeftOut> LeaveOneOut(const ShapeGrid& grid);

}  // namespace tune
