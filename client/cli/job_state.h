// SPDX-License-Identifier: Apache-2.0
// What a job's state means to those who follow it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/report/format.h"
#include "tune/v1/job.pb.h"

namespace tune::client {

inline bool IsUnfinished(v1::JobState state) {
  return state == v1::JOB_STATE_QUEUED || state == v1::JOB_STATE_WAITING ||
         state == v1::JOB_STATE_RUNNING;
}

// ABORTED if a stream that tells of `what`, "job 7", has ended before it was finished.
inline absl::Status CheckFinished(const std::string& what, v1::JobState state) {
  if (!IsUnfinished(state)) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("the server stopped telling of ", what, ", which was ",
                                         ToText(state), ". See: tunectl job list"));
}

}  // namespace tune::client
