// SPDX-License-Identifier: Apache-2.0
// The host's processors as tune::Runner: blocks on a pool of threads, threads of a block as fibers.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tuner/device/runner.h"

namespace tune::cpu {

// FAILED_PRECONDITION: the host cannot be used (no threads, no memory).
absl::StatusOr<std::unique_ptr<Runner>> MakeRunner();

}  // namespace tune::cpu
