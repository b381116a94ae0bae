// SPDX-License-Identifier: Apache-2.0
// Predicts the config for a shape that was never tuned, and its expected loss, from whole sweeps of
// other shapes. docs/lookup.md describes the model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "tuner/config.h"

namespace tune {

// The position of a dim's value on its axis: log2, and below 1 a line, so that different values
// stay different.
double AxisPosition(int64_t value);

inline constexpr size_t kGridConfigsMax = 64;    // that are kept of a sweep
inline constexpr size_t kGridConfigsRead = 128;  // that they are chosen among, the fastest
inline constexpr size_t kGridShapesMax = 64;

struct SweptConfig {
  Config config;
  double latency_ns = 0;
  int64_t residents = 0;  // blocks that a multiprocessor holds at a time; 0: not known
};

// How many blocks a config has at a shape; 0: not known.
using CountBlocks = std::function<int64_t(const Config&)>;

// A sweep as it is given to a grid: its ok configs, the fastest first.
struct SweptShape {
  std::vector<int64_t> dims;  // of the grid's axes
  std::vector<SweptConfig> configs;
  bool has_more = false;  // there were more ok configs, all of them slower
  CountBlocks blocks_of;  // null: not known
};

// How far the model was off where a shape was left out and the others were asked, as shares: 0.02
// is 2 % slower than the best. Made-up residuals stand in until there are enough of its own.
struct Residuals {
  uint32_t count = 0;  // shapes that were left out
  double mean = 0;     // of what was lost beyond what was predicted
  double low = 0;      // nine of ten lie between
  double high = 0;
  double nearest_octaves = 1;  // mean distance from a shape that was left out to the nearest
};

// A kernel's sweeps on one device, in one dtype, which differ in dims that may differ. A loss is in
// ten-thousandths of the best latency at its shape, at most kLossMax: whole numbers, so that all
// languages and hosts compute the same. Immutable once made.
struct ShapeGrid {
  static constexpr uint32_t kLossMax = 10000;  // twice as slow; how much slower does not matter
  static constexpr uint32_t kUnknown = 1u << 30;

  struct Shape {
    std::vector<int64_t> dims;
    std::vector<uint32_t> losses;  // of each of `configs`; kUnknown: it was not ok, or not kept
    uint32_t loss_of_unknown = 0;  // what such a config loses at least
    bool has_more = false;         // there were ok configs that are not kept
    std::vector<int64_t> blocks;   // of each of `configs`; 0: not known; empty: of none
    std::vector<double> stretch;   // by SetStretch
  };
  std::vector<std::string> axes;  // names of the dims
  std::vector<Config> configs;
  int64_t multiprocessors = 0;     // of the device; 0: it has none, or blocks are not known
  std::vector<int64_t> residents;  // of each of `configs`, at most; 0: not known; empty: of none
  std::vector<Shape> shapes;       // by dims
  Residuals residuals;
};

// Computes each shape's stretch from blocks, residents and multiprocessors, for a grid that was
// read.
void SetStretch(ShapeGrid& grid);

// A shape's say in an answer.
struct NeighbourWeight {
  size_t shape = 0;
  double weight = 0;   // all are 1 together
  double octaves = 0;  // distance over all axes
};

// Losses are shares: 0.02 is 2 % slower than the best config there would be.
struct GridChoice {
  size_t config = 0;
  double loss = 0;      // expected
  double loss_low = 0;  // nine of ten lie between
  double loss_high = 0;
  std::vector<NeighbourWeight> neighbours;  // the nearest first
};

// REQUIRES: every shape has as many dims as there are axes, and a config. The first of shapes with
// equal dims counts, and the first kGridShapesMax shapes. At most kGridConfigsMax of a sweep's
// configs are kept: some of each number of blocks, then the fastest.
ShapeGrid MakeShapeGrid(std::vector<std::string> axes, const std::vector<SweptShape>& sweeps,
                        int64_t multiprocessors = 0);

// A shape that is asked about.
struct AskedShape {
  absl::Span<const int64_t> dims;   // in the order of the axes
  CountBlocks blocks_of = nullptr;  // null: not known
};

// The config with the least expected loss of those that `accept` takes; nothing if it takes none of
// the kGridConfigsMax best.
using AcceptConfig = absl::FunctionRef<bool(const Config&)>;
std::optional<GridChoice> ChooseConfig(const ShapeGrid& grid, const AskedShape& asked,
                                       AcceptConfig accept);

// The expected loss of one config; nullopt if the grid does not have it.
std::optional<GridChoice> ExpectLoss(const ShapeGrid& grid, const AskedShape& asked,
                                     const Config& config);

// A shape of the grid asked of the others.
struct LeftOut {
  size_t shape = 0;
  double expected = 0;      // before residuals are added
  double loss = 0;          // of the chosen config, as the shape's own sweep has it
  double nearest_loss = 0;  // of the nearest shape's winner
  double nearest_octaves = 0;
  GridChoice choice;  // by a grid without the shape
};
// The loss of a config at a shape of the grid; nullopt if it never ran there.
using LossAtShape = std::function<std::optional<double>(size_t shape, const Config&)>;
// Shapes of which the others know no config are left out of the answer as well. With `loss_at`, the
// losses are what that says: a grid keeps but some of what was measured.
std::vector<LeftOut> LeaveOneOut(const ShapeGrid& grid, const LossAtShape& loss_at = nullptr);

}  // namespace tune
