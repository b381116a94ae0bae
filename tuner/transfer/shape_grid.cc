// SPDX-License-Identifier: Apache-2.0
#include "tuner/transfer/shape_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "tuner/transfer/waves.h"

namespace tune {
namespace {

using Shape = ShapeGrid::Shape;

constexpr double kLossUnit = ShapeGrid::kLossMax;
// A config that a sweep does not have is not valid there, or was not tried: that says little.
constexpr double kDoubtOfUnknown = 0.05;
constexpr size_t kNeighboursMax = 12;
// The configs kept for each number of blocks, since another shape may need that number.
constexpr size_t kKeptOfEachSize = 8;
// Weights fall with the distance to the power of 1.5. Below half an octave all count as equally
// near.
constexpr double kSameOctaves = 0.5;
// Stand-ins for residuals until a grid has its own.
constexpr double kMadeUpResiduals[] = {-0.02, 0.0, 0.01, 0.08};
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

// How much longer than its work each config takes at a shape, by its blocks; empty: not known.
std::vector<double> StretchOf(const ShapeGrid& grid, const AskedShape& asked) {
  std::vector<double> stretch;
  if (grid.multiprocessors == 0 || !asked.blocks_of) return stretch;
  for (size_t config = 0; config < grid.residents.size(); ++config) {
    const int64_t blocks = asked.blocks_of(grid.configs[config]);
    stretch.push_back(Stretch(blocks, grid.residents[config], grid.multiprocessors));
  }
  return stretch;
}

uint32_t LossOf(double latency, double best) {
  const double loss = (latency / best - 1) * kLossUnit;
  return static_cast<uint32_t>(std::llround(std::clamp(loss, 0.0, kLossUnit)));
}

// A neighbour's losses as they would be if its configs had the blocks that they have at the shape
// that is asked about.
class Retold {
 public:
  // Both must outlive this.
  Retold(const Shape& shape, const std::vector<double>& asked) : shape_(shape), asked_(asked) {
    for (size_t config = 0; config < shape.losses.size(); ++config) {
      if (Knows(config)) best_ = std::min(best_, Latency(shape.losses[config], config));
    }
  }

  bool Knows(size_t config) const { return shape_.losses[config] != ShapeGrid::kUnknown; }
  // The loss of a config at the neighbour; a lower bound if the neighbour does not know it.
  uint32_t Loss(size_t config) const {
    const uint32_t loss = Knows(config) ? shape_.losses[config] : shape_.loss_of_unknown;
    return LossOf(Latency(loss, config), best_);
  }

 private:
  double Latency(uint32_t loss, size_t config) const {
    const double latency = kLossUnit + loss;
    if (asked_.empty() || shape_.stretch.empty()) return latency;
    return latency * (asked_[config] / shape_.stretch[config]);
  }

  const Shape& shape_;
  const std::vector<double>& asked_;
  double best_ = std::numeric_limits<double>::infinity();
};

std::vector<Retold> Retell(const ShapeGrid& grid, const std::vector<NeighbourWeight>& neighbours,
                           const std::vector<double>& asked) {
  std::vector<Retold> retold;
  for (const NeighbourWeight& one : neighbours) retold.emplace_back(grid.shapes[one.shape], asked);
  return retold;
}

// A config with what its neighbours say of it.
struct Predicted {
  size_t config = 0;
  double loss = 0;            // share
  uint32_t nearest_loss = 0;  // at the nearest shape; decides between equals

  // Rounded, so that no answer hangs on the last bit of a sum.
  auto Rank() const { return std::tuple(std::llround(loss * 1e7), nearest_loss, config); }
};

// Returns nullopt if no neighbour has the config.
std::optional<Predicted> Predict(const std::vector<NeighbourWeight>& neighbours,
                                 const std::vector<Retold>& retold, size_t config) {
  double known = 0;  // weight of the shapes that have it
  double sum = 0;
  for (size_t i = 0; i < neighbours.size(); ++i) {
    if (!retold[i].Knows(config)) continue;
    known += neighbours[i].weight;
    sum += neighbours[i].weight * (retold[i].Loss(config) / kLossUnit);
  }
  if (known == 0) return std::nullopt;
  const double elsewhere = sum / known + kDoubtOfUnknown;
  Predicted predicted{.config = config, .loss = sum, .nearest_loss = ShapeGrid::kUnknown};
  if (retold.front().Knows(config)) predicted.nearest_loss = retold.front().Loss(config);
  for (size_t i = 0; i < neighbours.size(); ++i) {
    if (retold[i].Knows(config)) continue;
    const double at_least = retold[i].Loss(config) / kLossUnit;
    predicted.loss += neighbours[i].weight * std::max(elsewhere, at_least);
  }
  return predicted;
}

// The best first.
std::vector<Predicted> Rank(const ShapeGrid& grid, const std::vector<NeighbourWeight>& neighbours,
                            const std::vector<double>& stretch) {
  std::vector<Predicted> ranked;
  const std::vector<Retold> retold = Retell(grid, neighbours, stretch);
  for (size_t config = 0; config < grid.configs.size() && !neighbours.empty(); ++config) {
    if (const auto predicted = Predict(neighbours, retold, config)) ranked.push_back(*predicted);
  }
  const size_t count = std::min(ranked.size(), kGridConfigsMax);
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<ptrdiff_t>(count), ranked.end(),
                    [](const auto& a, const auto& b) { return a.Rank() < b.Rank(); });
  ranked.resize(count);
  return ranked;
}

// The loss of a config at a shape in that shape's own sweep; nullopt if it never ran there.
std::optional<double> LossAt(const Shape& shape, size_t config) {
  if (shape.losses[config] != ShapeGrid::kUnknown) return shape.losses[config] / kLossUnit;
  if (shape.has_more) return shape.loss_of_unknown / kLossUnit;
  return std::nullopt;
}

// A shape asked of the others, before residuals.
std::optional<LeftOut> AskOthers(const ShapeGrid& grid, size_t asked, const LossAtShape& loss_at) {
  const Shape& shape = grid.shapes[asked];
  const std::vector<NeighbourWeight> neighbours = NeighboursOf(grid, shape.dims, asked);
  if (neighbours.empty()) return std::nullopt;
  const auto loss_of = [&](size_t config) {
    return loss_at ? loss_at(asked, grid.configs[config]) : LossAt(shape, config);
  };
  LeftOut left{.shape = asked, .nearest_octaves = neighbours.front().octaves};
  bool chosen = false;
  for (const Predicted& predicted : Rank(grid, neighbours, shape.stretch)) {
    const std::optional<double> loss = loss_of(predicted.config);
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
    if (nearest[config] == ShapeGrid::kUnknown || !loss_of(config)) continue;
    if (!best || one < *best) best = one;
  }
  left.nearest_loss = best ? *loss_of(best->second) : left.loss;
  return left;
}

// The value below which this share of the sorted values lies; the outermost if there are too few.
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
    const std::optional<LeftOut> left = AskOthers(grid, shape, nullptr);
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

std::optional<GridChoice> ChooseFrom(const ShapeGrid& grid, absl::Span<const int64_t> dims,
                                     const std::vector<double>& stretch, AcceptConfig accept) {
  std::vector<NeighbourWeight> neighbours = NeighboursOf(grid, dims, kNone);
  for (const Predicted& predicted : Rank(grid, neighbours, stretch)) {
    if (!accept(grid.configs[predicted.config])) continue;
    return WithResiduals(grid, predicted, std::move(neighbours));
  }
  return std::nullopt;
}

ShapeGrid Without(const ShapeGrid& grid, size_t shape) {
  ShapeGrid rest = grid;
  rest.shapes.erase(rest.shapes.begin() + static_cast<ptrdiff_t>(shape));
  rest.residuals = ResidualsOf(rest);
  return rest;
}

// Which of a sweep's configs are kept.
std::vector<bool> KeptOf(const SweptShape& sweep) {
  std::vector<bool> kept(sweep.configs.size());
  std::map<int64_t, size_t> of_size;
  size_t count = 0;
  const auto keep = [&](size_t config) {
    if (count == kGridConfigsMax || kept[config]) return;
    kept[config] = true;
    ++count;
  };
  for (size_t config = 0; config < kept.size(); ++config) {
    const int64_t blocks = sweep.blocks_of ? sweep.blocks_of(sweep.configs[config].config) : 0;
    if (++of_size[blocks] <= kKeptOfEachSize) keep(config);
  }
  for (size_t config = 0; config < kept.size(); ++config) keep(config);
  return kept;
}

// The grid's entry of a sweep. `numbers` maps the text of each config that is kept to its position.
Shape ShapeOf(const SweptShape& sweep, const std::map<std::string, size_t>& numbers) {
  Shape shape{.dims = sweep.dims,
              .losses = std::vector<uint32_t>(numbers.size(), ShapeGrid::kUnknown),
              .has_more = sweep.has_more};
  const double best_ns = sweep.configs.front().latency_ns;
  const std::vector<bool> kept = KeptOf(sweep);
  std::optional<uint32_t> dropped;  // of the fastest that is not kept
  uint32_t slowest = 0;
  for (size_t i = 0; i < sweep.configs.size(); ++i) {
    const SweptConfig& one = sweep.configs[i];
    const uint32_t loss = LossOf(one.latency_ns, best_ns);
    slowest = std::max(slowest, loss);
    if (kept[i]) {
      shape.losses[numbers.at(ToText(one.config))] = loss;
    } else if (!dropped) {
      dropped = loss;
    }
  }
  shape.has_more = sweep.has_more || dropped.has_value();
  if (shape.has_more) shape.loss_of_unknown = dropped.value_or(slowest);
  return shape;
}

// Sets the residents of each config to the fewest that any sweep reports.
void SetResidents(const std::vector<const SweptShape*>& sweeps,
                  const std::map<std::string, size_t>& numbers, ShapeGrid& grid) {
  grid.residents.assign(grid.configs.size(), 0);
  for (const SweptShape* sweep : sweeps) {
    for (const SweptConfig& one : sweep->configs) {
      const auto number = numbers.find(ToText(one.config));
      if (number == numbers.end() || one.residents == 0) continue;
      int64_t& residents = grid.residents[number->second];
      residents = residents == 0 ? one.residents : std::min(residents, one.residents);
    }
  }
}

}  // namespace

double AxisPosition(int64_t value) {
  return value >= 1 ? std::log2(static_cast<double>(value)) : static_cast<double>(value) - 1;
}

void SetStretch(ShapeGrid& grid) {
  for (Shape& shape : grid.shapes) {
    shape.stretch.clear();
    if (grid.multiprocessors == 0 || shape.blocks.size() != grid.residents.size()) continue;
    for (size_t config = 0; config < shape.blocks.size(); ++config) {
      shape.stretch.push_back(
          Stretch(shape.blocks[config], grid.residents[config], grid.multiprocessors));
    }
  }
}

ShapeGrid MakeShapeGrid(std::vector<std::string> axes, const std::vector<SweptShape>& sweeps,
                        int64_t multiprocessors) {
  ShapeGrid grid{.axes = std::move(axes), .multiprocessors = multiprocessors};
  std::map<std::vector<int64_t>, const SweptShape*> by_dims;
  for (const SweptShape& sweep : sweeps) {
    if (by_dims.size() < kGridShapesMax) by_dims.try_emplace(sweep.dims, &sweep);
  }
  std::vector<const SweptShape*> counted;
  std::map<std::string, size_t> numbers;  // by a config's text
  for (const auto& [dims, sweep] : by_dims) {
    counted.push_back(sweep);
    const std::vector<bool> kept = KeptOf(*sweep);
    for (size_t i = 0; i < kept.size(); ++i) {
      const Config& config = sweep->configs[i].config;
      if (!kept[i] || !numbers.try_emplace(ToText(config), grid.configs.size()).second) continue;
      grid.configs.push_back(config);
    }
  }
  if (multiprocessors > 0) SetResidents(counted, numbers, grid);
  for (const SweptShape* sweep : counted) {
    Shape& shape = grid.shapes.emplace_back(ShapeOf(*sweep, numbers));
    if (multiprocessors == 0) continue;
    for (const Config& config : grid.configs) {
      shape.blocks.push_back(sweep->blocks_of ? sweep->blocks_of(config) : 0);
    }
  }
  SetStretch(grid);
  grid.residuals = ResidualsOf(grid);
  return grid;
}

std::optional<GridChoice> ChooseConfig(const ShapeGrid& grid, const AskedShape& asked,
                                       AcceptConfig accept) {
  return ChooseFrom(grid, asked.dims, StretchOf(grid, asked), accept);
}

std::optional<GridChoice> ExpectLoss(const ShapeGrid& grid, const AskedShape& asked,
                                     const Config& config) {
  const auto found = std::find(grid.configs.begin(), grid.configs.end(), config);
  if (found == grid.configs.end()) return std::nullopt;
  std::vector<NeighbourWeight> neighbours = NeighboursOf(grid, asked.dims, kNone);
  if (neighbours.empty()) return std::nullopt;
  const std::vector<double> stretch = StretchOf(grid, asked);
  const std::optional<Predicted> predicted =
      Predict(neighbours, Retell(grid, neighbours, stretch),
              static_cast<size_t>(found - grid.configs.begin()));
  if (!predicted) return std::nullopt;
  return WithResiduals(grid, *predicted, std::move(neighbours));
}

std::vector<LeftOut> LeaveOneOut(const ShapeGrid& grid, const LossAtShape& loss_at) {
  std::vector<LeftOut> all;
  for (size_t shape = 0; shape < grid.shapes.size(); ++shape) {
    std::optional<LeftOut> left = AskOthers(grid, shape, loss_at);
    if (!left) continue;
    const ShapeGrid rest = Without(grid, shape);
    const Shape& asked = grid.shapes[shape];
    const std::optional<GridChoice> choice = ChooseFrom(
        rest, asked.dims, asked.stretch,
        [&](const Config& config) { return config == grid.configs[left->choice.config]; });
    if (!choice) continue;
    left->choice = *choice;
    all.push_back(*std::move(left));
  }
  return all;
}

}  // namespace tune
