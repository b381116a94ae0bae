// SPDX-License-Identifier: Apache-2.0
// Compiles a plan of several units, one after the other, into one artifact.
#pragma once

#include "absl/status/statusor.h"
#include "tuner/device/compiler.h"

namespace tune::server {

// The first unit that does not compile is what comes of all.
absl::StatusOr<Artifact> CompileUnits(Compiler& compiler, const CompilePlan& plan);

}  // namespace tune::server
