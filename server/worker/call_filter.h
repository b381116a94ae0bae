// SPDX-License-Identifier: Apache-2.0
// Restricts a worker's system calls to a list of those that its work needs. All others fail with
// EPERM, including calls that future kernels will have.
#pragma once

#include "absl/status/status.h"
#include "server/worker/worker_role.h"

namespace tune::server {

// Applies to every thread of this process, also to those that run already. UNAVAILABLE with the
// reason. For WorkerRole::kHostDevice call it after the last thread has started: none can be
// started afterwards.
absl::Status FilterCalls(WorkerRole role);

}  // namespace tune::server
