// SPDX-License-Identifier: Apache-2.0
// Faults of the store that pass by themselves, or once disk space is freed.
#pragma once

#include "absl/status/status.h"

namespace tune::db {

// A full disk, an I/O error, a file system that became read-only: nothing was written, and the same
// write may succeed later.
inline bool MayPass(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status) ||
         absl::IsPermissionDenied(status);
}

}  // namespace tune::db
