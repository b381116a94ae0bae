// SPDX-License-Identifier: Apache-2.0
// A space from a list of its configs.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/space/space.h"

namespace tune {
namespace {

absl::Status CheckRows(const std::vector<SpaceParam>& params, const std::vector<uint16_t>& rows) {
  const size_t width = params.size();
  if (width == 0 || rows.empty() || rows.size() % width != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(rows.size(), " digits are no rows of ", width, " params"));
  }
  for (size_t at = 0; at < rows.size(); ++at) {
    if (rows[at] >= params[at % width].values.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("param '", params[at % width].name, "' has no digit ", rows[at]));
    }
  }
  for (size_t at = width; at < rows.size(); at += width) {
    if (!std::lexicographical_compare(&rows[at - width], &rows[at], &rows[at], &rows[at] + width)) {
      return absl::InvalidArgumentError(
          absl::StrCat("row ", at / width, " is not after the one before it"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Space> Space::FromRows(std::vector<SpaceParam> params, std::vector<uint16_t> rows) {
  RETURN_IF_ERROR(CheckRows(params, rows));
  const size_t width = params.size();
  // There is one node for each beginning that rows share. A row first differs from the row before
  // at some param. It adds an edge there, and an edge to a new node at every param after it.
  std::vector<Diagram::Level> levels(width);
  for (size_t i = 0; i < width; ++i) levels[i].param = static_cast<uint32_t>(i);
  for (size_t at = 0; at < rows.size(); at += width) {
    size_t first = 0;
    while (at > 0 && rows[at + first] == rows[at - width + first]) ++first;
    for (size_t i = first; i < width; ++i) {
      Diagram::Level& level = levels[i];
      if (i > first || at == 0) {
        level.first_edge.push_back(static_cast<uint32_t>(level.digits.size()));
      }
      level.digits.push_back(rows[at + i]);
      const bool is_last = i + 1 == width;
      level.children.push_back(is_last ? 0
                                       : static_cast<uint32_t>(levels[i + 1].first_edge.size()));
    }
  }
  for (Diagram::Level& level : levels) {
    level.first_edge.push_back(static_cast<uint32_t>(level.digits.size()));
  }
  std::vector<Diagram> components;
  components.push_back(*Diagram::Create(std::move(levels)));
  Space space;
  RETURN_IF_ERROR(space.Hold(std::move(params), std::move(components)));
  return space;
}

}  // namespace tune
