// SPDX-License-Identifier: Apache-2.0
// Turns a compile plan into a binary for a target. Runs inside a compile worker process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner/device/parameters.h"
#include "tuner/plan.h"
#include "tuner/trial.h"

namespace tune {

struct CompiledVariant {
  // kOk, kCompileFailed or kInvalidConfig (an option or include that is not allowed).
  Outcome outcome = Outcome::kOk;
  std::string log;      // the compiler's own words
  std::string binary;   // cubin, or shared object for the CPU
  Resources resources;
  // Of the entry, where the artifact tells them.
  std::optional<std::vector<ParameterFact>> parameters;
  double seconds = 0;
};

// Not thread-safe: one compile at a time, one process each (NVRTC's front end is serial).
class Compiler {
 public:
  virtual ~Compiler() = default;
  // "NVRTC 13.0.88", "g++ 12.2.0": part of the compile cache's key.
  virtual std::string Version() const = 0;
  // Targets it can compile for: {"sm_80", "sm_90a", ...} or {"cpu"}.
  virtual std::vector<std::string> Targets() const = 0;
  // A non-OK status means the compiler can no longer be used.
  virtual absl::StatusOr<CompiledVariant> Compile(const CompilePlan& plan) = 0;
};

}  // namespace tune
