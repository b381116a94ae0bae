// SPDX-License-Identifier: Apache-2.0
// A device worker: drives one Runner for the daemon. Arguments: --ordinal N, which device;
// --scratch DIR, its TMPDIR.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "server/worker/worker_role.h"
#include "tuner/device/runner.h"

namespace tune::server {

using RunnerFactory = std::function<absl::StatusOr<std::unique_ptr<Runner>>(int ordinal)>;

// The worker's main. A factory that fails is reported to the daemon, which asks for nothing more.
int RunDeviceWorker(int argc, char** argv, WorkerRole role, const RunnerFactory& factory);

}  // namespace tune::server
