// SPDX-License-Identifier: Apache-2.0
// Compiles a plan of several units, one after the other, into one artifact.
#pragma once

#include "absl/status/statusor.h"
#include "tuner/device/compiler.h"

namespace tune::server {

// Returns the artifact of the first unit that does not compile, if there is one.
absl::StatusOr<Artifact> CompileUnits(Compiler& compiler, const CompilePlan& plan);

}  // namespace tune::server
