// SPDX-License-Identifier: Apache-2.0
// Compiles a kernel's variants without running them, for `kernel check`, also for targets of which
// this host has no device.
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

// Called from any thread, one call at a time.
struct CompileHooks {
  // A variant (the config's text, "reference" or "checker") that does not compile, or whose
  // parameters the spec's args do not fit. The message is at most 4 KiB.
  std::function<void(const std::string& variant, const std::string& message)> found;
  // `done` counts finished variants, without the reference.
  std::function<void(uint64_t done)> progress;
};

// Compiles the reference, the checker and each of `configs` for the traits' target. Returns the
// number of configs that compile and fit. A non-OK status means that there is no compiler, or that
// the call was cancelled.
absl::StatusOr<uint64_t> CompileOnly(const Kernel& kernel, const Problem& problem,
                                     const TargetTraits& traits, const std::vector<Config>& configs,
                                     const Compilers& compilers, const CompileHooks& hooks,
                                     const Cancelled& cancelled = {});

}  // namespace tune::server
