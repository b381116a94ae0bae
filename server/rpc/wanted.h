// SPDX-License-Identifier: Apache-2.0
// For work that reads or computes in pieces for a call: checks between the pieces.
#pragma once

#include "absl/status/status.h"
#include "base/cancelled.h"

namespace tune::server {

// CANCELLED once the result is no longer wanted. `cancelled` may be empty.
inline absl::Status CheckWanted(const Cancelled& cancelled) {
  if (!cancelled || !cancelled()) return absl::OkStatus();
  return absl::CancelledError("nobody waits for the answer any more");
}

}  // namespace tune::server
