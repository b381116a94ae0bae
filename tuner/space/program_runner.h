// SPDX-License-Identifier: Apache-2.0
// Runs conjuncts of constraints as programs, one config at a time. They are for what terms cannot
// say, and for messages. Internal to tuner/space.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tuner/expression/bytecode.h"
#include "tuner/space/diagram_builder.h"
#include "tuner/space/space.h"
#include "tuner/space/term.h"

namespace tune {

// The constraints of a space compiled over slots: params first, lets after them.
struct CompiledSpace {
  struct Let {
    Bytecode program;
    ParamSet params = 0;  // those it depends on, also through other lets
  };
  // A conjunct of a constraint.
  struct Conjunct {
    Bytecode program;
    ParamSet params = 0;
    size_t constraint = 0;       // index in the definition
    std::vector<uint32_t> lets;  // those it needs, in order of definition
  };

  std::vector<std::vector<Cell>> values;  // of each param
  std::vector<std::string> names;         // of each param
  std::vector<std::string> texts;         // of each constraint
  std::vector<Let> lets;
  std::vector<Conjunct> conjuncts;
};

// INVALID_ARGUMENT for names that are unknown or taken twice, too many params or values.
absl::Status CheckDefinition(const SpaceDefinition& definition);

// `definition` is a checked one and must outlive the result. The conjuncts are those of
// Conjuncts(), constraint by constraint.
CompiledSpace CompileSpace(const SpaceDefinition& definition);

// Not thread-safe. `space` must outlive the runner.
class ProgramRunner {
 public:
  explicit ProgramRunner(const CompiledSpace& space);

  // `digits` is by param; only those of the conjunct matter.
  Verdict Decide(size_t conjunct, absl::Span<const uint16_t> digits);
  // Why the last Decide failed, and for which values.
  absl::Status Failure(size_t conjunct) const;

 private:
  void SetLet(uint32_t let);
  const std::string* Intern(const std::string& text) { return &*texts_.insert(text).first; }

  const CompiledSpace& space_;
  std::vector<Cell> slots_;
  std::unordered_set<std::string> texts_;
  Machine machine_;
};

}  // namespace tune
