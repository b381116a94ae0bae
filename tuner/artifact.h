// SPDX-License-Identifier: Apache-2.0
// The compiler's output for one config: a binary with the kernels that a program's steps launch,
// the resources that they take, and the parameters of each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "tuner/trial.h"

namespace tune {

struct ParameterFact {
  int64_t bytes = 0;
  // A C++ type ("const float*") if the artifact has it, or PTX's (".u64", ".b8"), in which a
  // pointer and a 64-bit integer are the same, or Triton's ("*bf16", "i32").
  std::string type;
  // The arg that it takes, if the artifact names it; else args are taken in their order.
  std::string name;
  int64_t divisor = 1;  // of the number or the address, which the code relies on
  // For a tensor map whose box the compiler decides: elements, slowest dimension first.
  std::vector<int64_t> box;
  int swizzle_bytes = 0;

  friend bool operator==(const ParameterFact&, const ParameterFact&) = default;
};
TUNE_FIELDS(ParameterFact, bytes, type, name, divisor, box, swizzle_bytes);

// Memory that a kernel wants for each block of a launch, by a pointer behind its parameters.
struct ScratchFact {
  int64_t bytes = 0;  // 0: it takes a null pointer
  int64_t alignment = 1;

  friend bool operator==(const ScratchFact&, const ScratchFact&) = default;
};
TUNE_FIELDS(ScratchFact, bytes, alignment);

// How a kernel must be launched, where its compiler decides that.
struct LaunchFacts {
  int64_t threads = 0;       // of a block, along x
  int64_t cluster = 1;       // blocks along x that stand for one of the spec's grid
  int64_t shared_bytes = 0;  // dynamic
  std::vector<ScratchFact> scratch;

  friend bool operator==(const LaunchFacts&, const LaunchFacts&) = default;
};
TUNE_FIELDS(LaunchFacts, threads, cluster, shared_bytes, scratch);

// A kernel of an artifact. Zeros where the artifact does not say.
struct EntryFacts {
  std::string name;
  std::optional<std::vector<ParameterFact>> parameters;
  int64_t threads = 0;      // of a block: exactly so many, as the kernel was compiled for
  int64_t threads_max = 0;  // of a block: no more
  std::optional<LaunchFacts> launch;
  std::string symbol;  // what the binary calls it; empty: as the plan does
  int unit = 0;

  friend bool operator==(const EntryFacts&, const EntryFacts&) = default;
};
TUNE_FIELDS(EntryFacts, name, parameters, threads, threads_max, launch, symbol, unit);

// A variable of an artifact that programs fill.
struct SymbolFacts {
  std::string variable;  // as the plan names it
  std::string symbol;    // what the binary calls it
  int unit = 0;

  friend bool operator==(const SymbolFacts&, const SymbolFacts&) = default;
};
TUNE_FIELDS(SymbolFacts, variable, symbol, unit);

struct Artifact {
  // kOk, kCompileFailed, kCompileTimeout or kInvalidConfig (an option or include that is not
  // allowed).
  Outcome outcome = Outcome::kOk;
  std::string log;  // the compiler's own words
  // A cubin, a shared object for the CPU, or text that the driver compiles; of several units, all
  // of them in one (tuner/bundle.h).
  std::string binary;
  Resources resources;              // of each kind, the most that an entry takes
  std::vector<EntryFacts> entries;  // those that were asked for, in that order
  std::vector<SymbolFacts> symbols;
  double seconds = 0;
};
TUNE_FIELDS(Artifact, outcome, log, binary, resources, entries, symbols, seconds);

// Each resource of an entry where it takes more than those before.
void AddResources(const Resources& entry, Resources& resources);

}  // namespace tune
