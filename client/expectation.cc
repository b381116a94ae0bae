// SPDX-License-Identifier: Apache-2.0
#include "client/expectation.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/format.h"

namespace tune::client {
namespace {

using Sizes = google::protobuf::RepeatedField<int64_t>;

std::string Shapes(int count) {
  return absl::StrCat(count, count == 1 ? " tuned shape" : " tuned shapes");
}

}  // namespace

std::string ToText(const v1::Expectation& expectation) {
  const int count = expectation.neighbours_size();
  const std::string high = PercentText(expectation.loss_high());
  const std::string loss =
      fmt::format("loses {} against the best there would be; nine of ten times {} to {}",
                  PercentText(expectation.loss()), PercentText(expectation.loss_low()), high);
  switch (expectation.basis()) {
    case v1::BASIS_MEASURED:
      return absl::StrCat("loses nothing: measured here, to ", high);
    case v1::BASIS_NEIGHBOURS:
      return absl::StrCat(loss, "; by ", Shapes(count));
    case v1::BASIS_SIBLING:
      return absl::StrCat(loss, "; by ", Shapes(count), " of another device");
    default:
      return "unknown: nothing was measured that says anything";
  }
}

std::vector<std::string> NeighbourLines(const v1::Expectation& expectation) {
  std::vector<std::string> lines;
  for (const v1::Neighbour& neighbour : expectation.neighbours()) {
    const std::string dims =
        absl::StrJoin(neighbour.dims(), " ", [](std::string* out, const v1::DimValue& dim) {
          absl::StrAppend(out, dim.name(), "=", dim.value());
        });
    lines.push_back(fmt::format("{:<32}weight {:.0f} %, loses {} there", dims,
                                100 * neighbour.weight(), PercentText(neighbour.loss())));
  }
  return lines;
}

std::vector<std::string> LaunchLines(const v1::LookupResponse& answer) {
  std::vector<std::string> lines;
  for (const v1::LaunchStep& step : answer.launches()) {
    std::string line = absl::StrCat("grid ", absl::StrJoin(step.grid(), "x"), ", block ",
                                    absl::StrJoin(step.block(), "x"));
    const Sizes& cluster = step.cluster();
    if (std::any_of(cluster.begin(), cluster.end(), [](int64_t size) { return size > 1; })) {
      absl::StrAppend(&line, ", cluster ", absl::StrJoin(cluster, "x"));
    }
    if (step.shared_bytes() > 0) absl::StrAppend(&line, ", ", step.shared_bytes(), " B shared");
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace tune::client
