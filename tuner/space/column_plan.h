// SPDX-License-Identifier: Apache-2.0
// How the terms of a component are computed param by param. The slots are what still matters to the
// other params once the first ones have values. Two assignments with the same slots have the same
// continuations. Internal to tuner/space.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tuner/space/term.h"

namespace tune {

// A conjunct of a constraint. It is a truth term, or it is opaque and runs as a program.
struct Atom {
  TermId term = 0;
  bool is_opaque = false;
  size_t program = 0;  // of an opaque conjunct
  ParamSet params = 0;
  size_t constraint = 0;  // index in the definition
};

struct Slot {
  TermId term = 0;
  // The slot matters if all conditions of one of these paths hold. If there are no paths, it always
  // matters.
  struct Condition {
    TermId term = 0;  // a slot as well
    Word word = 0;
    // Whether the term must be `word`, or must not be. The latter is for an `and` or an `or`: a
    // term that failed does not decide it.
    bool is_word = true;
  };
  std::vector<std::vector<Condition>> paths;
  Word filler = 0;  // its word when it does not matter
};

// An opaque atom with the terms of its params' digits.
struct PlanProgram {
  size_t program = 0;
  std::vector<TermId> digits;
};

struct PlanLevel {
  size_t param = 0;
  std::vector<TermId> terms;          // that become computable here, operands first
  std::vector<TermId> decided;        // truth terms to check here
  std::vector<PlanProgram> programs;  // to run here
  std::vector<Slot> slots;            // kept for the levels below
};

struct ColumnPlan {
  TermGraph graph;  // with chains taken apart: at most three operands each
  std::vector<PlanLevel> levels;
  bool may_fail = false;
};

// `atoms` are over `order`'s params only, at least one each.
ColumnPlan MakeColumnPlan(const TermGraph& graph, const std::vector<Atom>& atoms,
                          const std::vector<size_t>& order);

}  // namespace tune
