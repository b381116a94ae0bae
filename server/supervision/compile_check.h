// SPDX-License-Identifier: Apache-2.0
// Compiles a kernel's variants without running them: what `kernel check` does, also for targets
// that this host has no device for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/supervision/compilers.h"
#include "tuner/config.h"
#include "tuner/kernel/kernel.h"

namespace tune::server {

// One call at a time, on any thread.
struct CompileHooks {
  // A variant (the config's text, "reference" or "checker") that does not compile, or whose
  // parameters the spec's args do not fit. The message is at most 4 KiB.
  std::function<void(const std::string& variant, const std::string& message)> found;
  // Variants that are done with, the reference not counted.
  std::function<void(uint64_t done)> progress;
};

// Compiles the reference, the checker and each of `configs` for the traits' target. The number of
// configs that are well. A non-OK status means that there is no compiler, or that it was cancelled.
absl::StatusOr<uint64_t> CompileOnly(const Kernel& kernel, const Problem& problem,
                                     const TargetTraits& traits, const std::vector<Config>& configs,
                                     const Compilers& compilers, const CompileHooks& hooks,
                                     const Cancelled& cancelled = {});

}  // namespace tune::server
