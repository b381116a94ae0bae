// SPDX-License-Identifier: Apache-2.0
#include "tuner/transfer/shape_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

namespace tune {
namespace {

using Shape = ShapeGrid::Shape;

constexpr double kLossUnit = ShapeGrid::kLossMax;
// A config that a sweep does not have is not valid there, or was not tried: that says little.
constexpr double kDoubtOfUnknown = 0.05;
constexpr size_t kNeighboursMax = 12;
// Weights fall with the distance to the power of 1.5. Below half an octave all count as equally
// near.
constexpr double kSameOctaves = 0.5;
// What stands in for residuals until a grid has its own.
constexpr double kMadeUpResiduals[] = {-0.01, 0.0, 0.02, 0.08};
constexpr double kOutside = 0.05;  // on either side of what nine of ten lie between
constexpr size_t kNone = std::numeric_limits<size_t>::max();

double Octaves(absl::Span<const int64_t> a, absl::Span<const int64_t> b) {
  double octaves = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    octaves += std::abs(AxisPosition(a[i]) - AxisPosition(b[i]));
  }
  return octaves;
}

// The nearest shapes but `without`, the nearest first, with their weights.
std::vector<NeighbourWeight> NeighboursOf(const ShapeGrid& grid, absl::Span<const int64_t> dims,
                                          size_t without) {
  std::vector<NeighbourWeight> all;
  for (size_t shape = 0; shape < grid.shapes.size(); ++shape) {
    if (shape == without) continue;
    all.push_back({.shape = shape, .octaves = Octaves(dims, grid.shapes[shape].dims)});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.octaves < b.octaves; });
  all.resize(std::min(all.size(), kNeighboursMax));
  double sum = 0;
  for (NeighbourWeight& one : all) {
    const double distance = std::max(one.octaves, kSameOctaves);
    one.weight = 1 / (distance * std::sqrt(distance));
    sum += one.weight;
  }
  for (NeighbourWeight& one : all) one.weight /= sum;
  return all;
}

// A config with what its neighbours say of it.
struct Predicted {
  size_t config = 0;
  double loss = 0;            // share
  uint32_t nearest_loss = 0;  // at the nearest shape; decides between equals

  // Rounded, so that no answer hangs on the last bit of a sum.
  auto Rank() const { return std::tuple(std::llround(loss * 1e7), nearest_loss, config); }
};

// Of a config that no neighbour has, nothing.
std::optional<Predicted> Predict(const ShapeGrid& grid,
                                 const std::vector<NeighbourWeight>& neighbours, size_t config) {
  double known = 0;  // weight of the shapes that have it
  double sum = 0;
  for (const NeighbourWeight& one : neighbours) {
    const uint32_t loss = grid.shapes[one.shape].losses[config];
    if (loss == ShapeGrid::kUnknown) continue;
    known += one.weight;
    sum += one.weight * (loss / kLossUnit);
  }
  if (known == 0) return std::nullopt;
  const double elsewhere = sum / known + kDoubtOfUnknown;
  Predicted predicted{.config = config,
                      .loss = sum,
                      .nearest_loss = grid.shapes[neighbours.front().shape].losses[config]};
  for (const NeighbourWeight& one : neighbours) {
    const Shape& shape = grid.shapes[one.shape];
    if (shape.losses[config] != ShapeGrid::kUnknown) continue;
    predicted.loss += one.weight * std::max(elsewhere, shape.loss_of_unknown / kLossUnit);
  }
  return predicted;
}

// The best first.
std::vector<Predicted> Rank(const ShapeGrid& grid, const std::vector<NeighbourWeight>& neighbours) {
  std::vector<Predicted> ranked;
  for (size_t config = 0; config < grid.configs.size(); ++config) {
    if (const auto predicted = Predict(grid, neighbours, config)) ranked.push_back(*predicted);
  }
  const size_t count = std::min(ranked.size(), kGridConfigsMax);
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<ptrdiff_t>(count), ranked.end(),
                    [](const auto& a, const auto& b) { return a.Rank() < b.Rank(); });
  ranked.resize(count);
  return ranked;
}

// What a config lost at a shape, as its own sweep has it; nothing if it never ran there.
std::optional<double> LossAt(const Shape& shape, size_t config) {
  if (shape.losses[config] != ShapeGrid::kUnknown) return shape.losses[config] / kLossUnit;
  if (shape.has_more) return shape.loss_of_unknown / kLossUnit;
  return std::nullopt;
}

// A shape asked of the others, before residuals.
std::optional<LeftOut> AskOthers(const ShapeGrid& grid, size_t asked) {
  const Shape& shape = grid.shapes[asked];
  const std::vector<NeighbourWeight> neighbours = NeighboursOf(grid, shape.dims, asked);
  if (neighbours.empty()) return std::nullopt;
  LeftOut left{.shape = asked, .nearest_octaves = neighbours.front().octaves};
  bool chosen = false;
  for (const Predicted& predicted : Rank(grid, neighbours)) {
    const std::optional<double> loss = LossAt(shape, predicted.config);
    if (!loss) continue;
    left.expected = predicted.loss;
    left.loss = *loss;
    left.choice.config = predicted.config;
    chosen = true;
    break;
  }
  if (!chosen) return std::nullopt;
  // Its own winner, else its second, ...
  const std::vector<uint32_t>& nearest = grid.shapes[neighbours.front().shape].losses;
  std::optional<std::pair<uint32_t, size_t>> best;
  for (size_t config = 0; config < nearest.size(); ++config) {
    const std::pair one(nearest[config], config);
    if (nearest[config] == ShapeGrid::kUnknown || !LossAt(shape, config)) continue;
    if (!best || one < *best) best = one;
  }
  left.nearest_loss = best ? *LossAt(shape, best->second) : left.loss;
  return left;
}

// Of sorted values, one that this share of them lies below; the outermost where there are too few
// to tell.
double Quantile(const std::vector<double>& sorted, double share) {
  const double place = share * (static_cast<double>(sorted.size()) + 1) - 1;
  const double last = static_cast<double>(sorted.size() - 1);
  const double rounded = share < 0.5 ? std::floor(place) : std::ceil(place);
  return sorted[static_cast<size_t>(std::clamp(rounded, 0.0, last))];
}

Residuals ResidualsOf(const ShapeGrid& grid) {
  std::vector<double> values(std::begin(kMadeUpResiduals), std::end(kMadeUpResiduals));
  Residuals residuals;
  double octaves = 0;
  for (size_t shape = 0; shape < grid.shapes.size(); ++shape) {
    const std::optional<LeftOut> left = AskOthers(grid, shape);
    if (!left) continue;
    values.push_back(left->loss - left->expected);
    octaves += left->nearest_octaves;
    ++residuals.count;
  }
  for (const double value : values) residuals.mean += value / static_cast<double>(values.size());
  std::sort(values.begin(), values.end());
  residuals.low = Quantile(values, kOutside);
  residuals.high = Quantile(values, 1 - kOutside);
  if (residuals.count > 0) residuals.nearest_octaves = octaves / residuals.count;
  return residuals;
}

GridChoice WithResiduals(const ShapeGrid& grid, const Predicted& predicted,
                         std::vector<NeighbourWeight> neighbours) {
  const Residuals& residuals = grid.residuals;
  // Farther from the grid than its shapes are from each other, it errs in proportion.
  const double usual = std::max(residuals.nearest_octaves, kSameOctaves);
  const double farther = std::max(1.0, neighbours.front().octaves / usual);
  const auto plus = [&](double residual) {
    return std::max(0.0, predicted.loss + residual * farther);
  };
  return {.config = predicted.config,
          .loss = plus(residuals.mean),
          .loss_low = plus(std::min(residuals.low, residuals.mean)),
          .loss_high = plus(std::max(residuals.high, residuals.mean)),
          .neighbours = std::move(neighbours)};
}

ShapeGrid Without(const ShapeGrid& grid, size_t shape) {
  ShapeGrid rest = grid;
  rest.shapes.erase(rest.shapes.begin() + static_cast<ptrdiff_t>(shape));
  rest.residuals = ResidualsOf(rest);
  return rest;
}

uint32_t LossOf(double latency_ns, double best_ns) {
  const double loss = (latency_ns / best_ns - 1) * kLossUnit;
  return static_cast<uint32_t>(std::llround(std::clamp(loss, 0.0, kLossUnit)));
}

}  // namespace

double AxisPosition(int64_t value) {
  return value >= 1 ? std::log2(static_cast<double>(value)) : static_cast<double>(value) - 1;
}

ShapeGrid MakeShapeGrid(std::vector<std::string> axes, const std::vector<SweptShape>& sweeps) {
  ShapeGrid grid{.axes = std::move(axes)};
  std::map<std::vector<int64_t>, const SweptShape*> by_dims;
  for (const SweptShape& sweep : sweeps) {
    if (by_dims.size() < kGridShapesMax) by_dims.try_emplace(sweep.dims, &sweep);
  }
  std::map<std::string, size_t> numbers;  // by a config's text
  for (const auto& [dims, sweep] : by_dims) {
    for (const auto& [config, latency_ns] : sweep->latencies_ns) {
      if (numbers.try_emplace(ToText(config), grid.configs.size()).second) {
        grid.configs.push_back(config);
      }
    }
  }
  for (const auto& [dims, sweep] : by_dims) {
    Shape& shape = grid.shapes.emplace_back(
        Shape{.dims = dims,
              .losses = std::vector<uint32_t>(grid.configs.size(), ShapeGrid::kUnknown),
              .has_more = sweep->has_more});
    for (const auto& [config, latency_ns] : sweep->latencies_ns) {
      const uint32_t loss = LossOf(latency_ns, sweep->latencies_ns.front().second);
      shape.losses[numbers[ToText(config)]] = loss;
      if (sweep->has_more) shape.loss_of_unknown = std::max(shape.loss_of_unknown, loss);
    }
  }
  grid.residuals = ResidualsOf(grid);
  return grid;
}

std::optional<GridChoice> ChooseConfig(const ShapeGrid& grid, absl::Span<const int64_t> dims,
                                       AcceptConfig accept) {
  std::vector<NeighbourWeight> neighbours = NeighboursOf(grid, dims, kNone);
  for (const Predicted& predicted : Rank(grid, neighbours)) {
    if (!accept(grid.configs[predicted.config])) continue;
    return WithResiduals(grid, predicted, std::move(neighbours));
  }
  return std::nullopt;
}

std::optional<GridChoice> ExpectLoss(const ShapeGrid& grid, absl::Span<const int64_t> dims,
                                     const Config& config) {
  const auto found = std::find(grid.configs.begin(), grid.configs.end(), config);
  if (found == grid.configs.end()) return std::nullopt;
  std::vector<NeighbourWeight> neighbours = NeighboursOf(grid, dims, kNone);
  const std::optional<Predicted> predicted =
      Predict(grid, neighbours, static_cast<size_t>(found - grid.configs.begin()));
  if (!predicted) return std::nullopt;
  return WithResiduals(grid, *predicted, std::move(neighbours));
}

std::vector<LeftOut> LeaveOneOut(const ShapeGrid& grid) {
  std::vector<LeftOut> all;
  for (size_t shape = 0; shape < grid.shapes.size(); ++shape) {
    std::optional<LeftOut> left = AskOthers(grid, shape);
    if (!left) continue;
    const ShapeGrid rest = Without(grid, shape);
    const std::optional<GridChoice> choice =
        ChooseConfig(rest, grid.shapes[shape].dims, [&](const Config& config) {
          return config == grid.configs[left->choice.config];
        });
    if (!choice) continue;
    left->choice = *choice;
    all.push_back(*std::move(left));
  }
  return all;
}

}  // namespace tune
