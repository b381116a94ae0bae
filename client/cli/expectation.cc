// SPDX-License-Identifier: Apache-2.0
#include "client/cli/expectation.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "client/report/format.h"

namespace tune::client {
namespace {

// An interval that reaches so far says nothing (tuner/sweep/winner.h).
constexpr double kNoisyLoss = 0.2;

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
      if (expectation.loss_high() > kNoisyLoss) {
        return absl::StrCat("may lose up to ", high,
                            ": measured here, but the host was too noisy to tell");
      }
      return absl::StrCat("loses nothing: measured here, to ", high);
    case v1::BASIS_NEIGHBOURS:
      return absl::StrCat(loss, "; by ", Shapes(count));
    case v1::BASIS_SIBLING:
      return absl::StrCat(loss, "; by ", Shapes(count), " of another device");
    default:
      return "unknown: nothing was measured that says anything";
  }
}

std::string ReasonText(const v1::LookupResponse& answer) {
  const absl::string_view name = absl::StripPrefix(v1::Match_Name(answer.match()), "MATCH_");
  const std::string match = absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"_", " "}});
  if (absl::StartsWith(answer.reason(), match)) return answer.reason();
  return absl::StrCat(match, ": ", answer.reason());
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
