// SPDX-License-Identifier: Apache-2.0
// Exit codes of tunectl, documented in docs/cli.md.
#pragma once

#include "absl/status/status.h"

namespace tune::client {

enum ExitCode : int {
  kDone = 0,
  kFailed = 1,
  kUsage = 2,          // a wrong flag, dim, kernel name or spec
  kUnreachable = 3,    // no daemon where one was asked for
  kNoValidConfig = 4,  // the sweep finished, but no config was ok
  kGateFailed = 5,     // the gate found a kernel slower
  kGateUnsure = 6,     // the gate could not measure, or with --strict could not tell
  kInterrupted = 130,  // Ctrl-C
};

// The exit code of a failed call.
inline ExitCode ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kDone;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
      return kUsage;
    case absl::StatusCode::kUnavailable:
      return kUnreachable;
    case absl::StatusCode::kCancelled:
      return kInterrupted;
    default:
      return kFailed;
  }
}

}  // namespace tune::client
