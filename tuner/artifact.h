// SPDX-License-Identifier: Apache-2.0
// What a compiler makes of one config: a binary with the kernels that a program's steps launch, the
// resources they take, and what each says of how it is launched.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tuner/trial.h"

namespace tune {

struct ParameterFact {
  int64_t bytes = 0;
  // A C++ type ("const float*") where the artifact tells it, or PTX's (".u64", ".b8"), in which a
  // pointer and a 64-bit integer are one.
  std::string type;

  friend bool operator==(const ParameterFact&, const ParameterFact&) = default;
};

// A kernel of an artifact. Zeros where the artifact does not say.
struct EntryFacts {
  std::string name;
  std::optional<std::vector<ParameterFact>> parameters;
  int64_t threads = 0;      // of a block: exactly so many, as the kernel was compiled for
  int64_t threads_max = 0;  // of a block: no more

  friend bool operator==(const EntryFacts&, const EntryFacts&) = default;
};

struct Artifact {
  // kOk, kCompileFailed, kCompileTimeout or kInvalidConfig (an option or include that is not
  // allowed).
  Outcome outcome = Outcome::kOk;
  std::string log;      // the compiler's own words
  std::string binary;   // a cubin, a shared object for the CPU, or text that the driver compiles
  Resources resources;  // of each kind, the most that an entry takes
  std::vector<EntryFacts> entries;  // those that were asked for, in that order
  double seconds = 0;
};

// Each resource of an entry where it takes more than those before.
void AddResources(const Resources& entry, Resources& resources);

}  // namespace tune
