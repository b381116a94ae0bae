// SPDX-License-Identifier: Apache-2.0
// The state of a stored job that no scheduler of this process runs.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "db/job.h"

namespace tune::server {

inline constexpr char kEndedUnfinished[] = "the process that ran it ended before it was done";

// Returns the row to show. A finished job keeps its row. `owner`: the process that has the store,
// if it is another; empty: none.
inline db::JobRow AsLeft(db::JobRow row, const std::string& owner) {
  if (db::IsFinished(row.state)) return row;
  if (!owner.empty()) {
    row.message = absl::StrCat("in ", owner);
  } else {
    row.state = db::JobState::kQueued;
    row.message =
        row.kind == db::JobKind::kSweep
            ? "interrupted; the same command again goes on from its trials, and a daemon takes up "
              "what a daemon began"
            : "interrupted; a daemon takes up what a daemon began";
  }
  return row;
}

}  // namespace tune::server
