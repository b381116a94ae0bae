// SPDX-License-Identifier: Apache-2.0
// Detects programs that run the same instructions and are launched alike. Names, notes and debug
// information do not count.
#pragma once

#include <string>
#include <vector>

#include "tuner/artifact.h"
#include "tuner/plan.h"

namespace tune::server {

// SHA-256, hex, of an artifact's code and constant data (sections of its ELF file, be it a cubin or
// a shared object) and of the resources that it takes. Artifacts with equal hashes have the same
// instructions. Bytes that are no ELF file are hashed whole.
std::string MachineCodeHash(const Artifact& artifact);

// Equal for steps that launch entries of equal names alike, with equal arguments.
std::string StepsKey(const std::vector<StepPlan>& steps);

}  // namespace tune::server
