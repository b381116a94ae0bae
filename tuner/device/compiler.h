// SPDX-License-Identifier: Apache-2.0
// Turns a compile plan into a binary for a target. Runs inside a compile worker process.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner/artifact.h"
#include "tuner/plan.h"

namespace tune {

// Files beyond the system's own that a compiler reads and runs while it compiles.
struct CompilerFiles {
  std::vector<std::string> readable;  // folders
  std::vector<std::string> programs;  // no others are run
};

// Compiles one language. Not thread-safe: a process compiles one variant at a time, since NVRTC's
// front end is serial.
class Compiler {
 public:
  virtual ~Compiler() = default;
  virtual Language language() const { return Language::kCuda; }
  // "NVRTC 13.0.88", "g++ 12.2.0": part of the compile cache's key.
  virtual std::string Version() const = 0;
  // Targets it can compile for: {"sm_80", "sm_90a", ...} or {"cpu"}.
  virtual std::vector<std::string> Targets() const = 0;
  virtual CompilerFiles Files() const { return {}; }
  // For a language whose sources run: attempts forbidden acts where a source would run, and returns
  // those that succeeded, in words. Call it only behind walls, where the attempts do no harm.
  virtual absl::StatusOr<std::vector<std::string>> TryWalls() { return std::vector<std::string>(); }
  // A non-OK status means the compiler can no longer be used.
  virtual absl::StatusOr<Artifact> Compile(const CompilePlan& plan) = 0;
};

}  // namespace tune
