// SPDX-License-Identifier: Apache-2.0
// Compiles a kernel's variants without running them: what `kernel check` does, also for targets
// that this host has no device for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/pool/compile_pool.h"
#include "tuner/config.h"
#include "tuner/kernel.h"

namespace tune::server {

struct CompileFinding {
  std::string variant;  // the config's text, or "reference"
  std::string message;  // the compiler's words
};

struct CompileReport {
  uint64_t compiled = 0;                 // variants, the reference not counted
  std::vector<CompileFinding> findings;  // at most kCompileFindingsMax
};

inline constexpr size_t kCompileFindingsMax = 100;

// Compiles the reference and each of `configs` for the traits' target. A variant that does not
// compile is a finding; a non-OK status means that there is no compiler, or that it was cancelled.
absl::StatusOr<CompileReport> CompileOnly(const Kernel& kernel, const Problem& problem,
                                          const TargetTraits& traits,
                                          const std::vector<Config>& configs, CompilePool& pool,
                                          const Cancelled& cancelled = {});

}  // namespace tune::server
