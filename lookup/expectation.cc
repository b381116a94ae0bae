// SPDX-License-Identifier: Apache-2.0
#include "lookup/expectation.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "lookup/reason.h"

namespace tune::lookup {
namespace {

constexpr double kSiblingDoubt = 2;  // how much wider its band is than the device's own

// `elsewhere`: the grid is of another device. Then it is as much, but with more doubt.
Expectation ExpectationOf(const ShapeGrid& grid, const GridChoice& choice, bool elsewhere) {
  const double doubt = elsewhere ? kSiblingDoubt : 1;
  Expectation expectation{.basis = elsewhere ? Basis::kSibling : Basis::kNeighbours,
                          .loss = choice.loss,
                          .loss_low = choice.loss_low / doubt,
                          .loss_high = choice.loss_high * doubt};
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

AskedShape Asked(const SpeakingGrid& grid) {
  return {.dims = grid.place, .blocks_of = grid.blocks_of};
}

// Estimates the loss of the record's config on the problem asked for, from the grid of the record's
// own device.
Expectation ExpectOf(const std::vector<SpeakingGrid>& grids, const Answer& found) {
  for (const SpeakingGrid& one : grids) {
    if (one.device_name != found.record->key.device_name) continue;
    const std::optional<GridChoice> choice = ExpectLoss(*one.grid, Asked(one), *found.config);
    if (!choice) return {};
    return ExpectationOf(*one.grid, *choice, found.match == Match::kOtherDevice);
  }
  return {};
}

std::string ChosenFrom(const Expectation& expectation) {
  const size_t count = expectation.neighbours.size();
  if (count < 2) return "";
  return absl::StrCat("; its config is chosen from the sweeps of ", count, " shapes");
}

// The device itself, else its siblings, the one with the most shapes first.
void Order(const std::string& device_name, std::vector<SpeakingGrid>& grids) {
  std::sort(grids.begin(), grids.end(), [&](const SpeakingGrid& a, const SpeakingGrid& b) {
    const auto rank = [&](const SpeakingGrid& one) {
      const auto shapes = static_cast<int64_t>(one.grid->shapes.size());
      return std::tuple(one.device_name != device_name, -shapes,
                        absl::string_view(one.device_name));
    };
    return rank(a) < rank(b);
  });
}

}  // namespace

Expectation ExpectMeasured(const Record& record) {
  const Measurement& measured = record.trial.measurement;
  const double median = measured.latency_ns_median;
  const double least = TooNoisyToTell(measured) ? measured.latency_ns_low : median;
  return {.basis = Basis::kMeasured,
          .loss_high = median > 0 ? std::max(0.0, (measured.latency_ns_high - least) / median) : 0};
}

Expectation AskGrids(std::vector<SpeakingGrid> grids, const Query& query,
                     const KernelPolicy& policy, const std::string& kernel_hash,
                     AcceptConfig accept, Answer& found) {
  if (found.match == Match::kExact) return ExpectMeasured(*found.record);
  if (found.match == Match::kBucketed || found.match == Match::kOtherDevice) {
    return ExpectOf(grids, found);
  }
  Order(query.device_name, grids);
  for (const SpeakingGrid& one : grids) {
    const std::optional<GridChoice> choice = ChooseConfig(*one.grid, Asked(one), accept);
    if (!choice) continue;
    const bool elsewhere = one.device_name != query.device_name;
    if (elsewhere && found.record != nullptr) return {};  // of another source, but of this device
    if (found.record == nullptr) {
      found.record = one.record_of(choice->neighbours.front().shape);
      if (found.record == nullptr) {
        found.reason = "the snapshot lacks the records of its grids";
        return {};
      }
      found.match = elsewhere ? Match::kOtherDevice : Match::kNearest;
      found.reason = ExplainMatch(found.match, query, *found.record, policy, kernel_hash);
    }
    found.config = &one.grid->configs[choice->config];
    Expectation expectation = ExpectationOf(*one.grid, *choice, elsewhere);
    expectation.chosen_between = true;
    found.reason += ChosenFrom(expectation);
    return expectation;
  }
  return {};
}

}  // namespace tune::lookup
