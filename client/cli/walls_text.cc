// SPDX-License-Identifier: Apache-2.0
#include "client/cli/walls_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tune::client {

std::string WallsText(const v1::WorkerWalls& walls) {
  std::vector<std::string> missing, standing, unneeded;
  if (!walls.error().empty()) missing.push_back(walls.error());
  for (const v1::Wall& wall : walls.walls()) {
    switch (wall.state()) {
      case v1::WALL_STATE_STANDS:
        standing.push_back(wall.name());
        break;
      case v1::WALL_STATE_NOT_NEEDED:
        unneeded.push_back(wall.name());
        break;
      default:
        missing.push_back(absl::StrCat(wall.name(), ": ", wall.note()));
        break;
    }
  }
  std::string text = absl::StrCat(walls.worker(), ": ");
  if (!missing.empty()) absl::StrAppend(&text, "MISSING ", absl::StrJoin(missing, "; "), "; ");
  absl::StrAppend(&text, absl::StrJoin(standing, ", "),
                  standing.empty() ? "none stands" : " stand");
  if (!unneeded.empty()) absl::StrAppend(&text, "; not needed: ", absl::StrJoin(unneeded, ", "));
  if (walls.landlock() > 0) absl::StrAppend(&text, " (Landlock ", walls.landlock(), ")");
  return text;
}

}  // namespace tune::client
