// SPDX-License-Identifier: Apache-2.0
// Which system calls a worker may make: a list of what its work needs. Whatever is not on the list
// fails with EPERM, also calls that kernels of the future will have.
#pragma once

#include "absl/status/status.h"
#include "server/worker/worker_role.h"

namespace tune::server {

// For every thread of this process, those that run already included. UNAVAILABLE with the reason.
// For WorkerRole::kHostDevice call it when the last thread has started: none can be started
// afterwards.
absl::Status FilterCalls(WorkerRole role);

}  // namespace tune::server
