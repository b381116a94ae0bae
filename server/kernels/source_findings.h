// SPDX-License-Identifier: Apache-2.0
// Finds the mistakes of a kernel that do not depend on its config, from its text before anything is
// compiled.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner/kernel/kernel.h"

namespace tune::server {

struct SourceFinding {
  std::string message;    // begins with the place: "softmax.cu:12: ..."
  bool certain = true;    // otherwise it may be meant
  bool of_entry = false;  // there is no kernel to compile
};

// Finds work that is less than the outputs, entries that are no kernels, macros of the spec that
// the source redefines, and args that seem to have another order than the parameters.
absl::StatusOr<std::vector<SourceFinding>> CheckSource(const Kernel& kernel, const Problem& problem,
                                                       const TargetTraits& traits);

}  // namespace tune::server
