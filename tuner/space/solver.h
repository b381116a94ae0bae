// SPDX-License-Identifier: Apache-2.0
// Finds every assignment of the params of a space that its constraints allow. Works on digits
// (positions in the params' value lists) and compiled constraints. Internal to tuner/space.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/expression/program.h"
#include "tuner/space/space.h"

namespace tune {

// A set of params, bit i for param i.
using ParamSet = uint64_t;
inline constexpr size_t kMaxSpaceParams = 64;
inline constexpr size_t kMaxSpaceValues = 65536;  // a digit is 16 bits

// The constraints of a space compiled over slots: params first, lets after them.
struct CompiledSpace {
  struct Let {
    Program program;
    ParamSet params = 0;  // those it depends on, also through other lets
  };
  // One conjunct of a constraint.
  struct Atom {
    Program program;
    ParamSet params = 0;
    size_t constraint = 0;       // index in the definition
    std::vector<uint32_t> lets;  // those it needs, in order of definition
  };

  std::vector<std::vector<Cell>> values;  // of each param
  std::vector<std::string> names;         // of each param
  std::vector<std::string> texts;         // of each constraint
  std::vector<Let> lets;
  std::vector<Atom> atoms;
};

// `definition` must outlive the result.
absl::StatusOr<CompiledSpace> CompileSpace(const SpaceDefinition& definition);

// Params that share no constraint with any other group.
struct Component {
  std::vector<size_t> params;  // in search order
  uint64_t count = 0;          // assignments
  std::vector<uint16_t> rows;  // params.size() digits for each assignment, sorted in search order
};

struct SolveLimits {
  uint64_t rows = 0;        // of one component
  uint64_t steps = 0;       // values tried and instructions run, in all
  bool first_only = false;  // one assignment of each component will do
};

// Solves with the first `constraint_count` constraints only. If there is no assignment at all, one
// component with a count of 0 is returned. INVALID_ARGUMENT if a constraint cannot be evaluated
// where the others hold; RESOURCE_EXHAUSTED over a limit.
absl::StatusOr<std::vector<Component>> Solve(const CompiledSpace& space, size_t constraint_count,
                                             const SolveLimits& limits);

}  // namespace tune
