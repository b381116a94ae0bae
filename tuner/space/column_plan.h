// SPDX-License-Identifier: Apache-2.0
// How the terms of a component are computed param by param, and what of an assignment of the first
// params still matters to the rest: the slots. Two assignments with the same slots have the same
// continuations. Internal to tuner/space.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tuner/space/term.h"

namespace tune {

// A conjunct of a constraint: a truth term, or opaque, to be run as a program.
struct Atom {
  TermId term = 0;
  bool is_opaque = false;
  size_t program = 0;  // of an opaque one
  ParamSet params = 0;
  size_t constraint = 0;  // index in the definition
};

struct Slot {
  TermId term = 0;
  // It matters if all conditions of one of these hold; if there are none, always.
  struct Condition {
    TermId term = 0;  // a slot as well
    Word word = 0;
    bool is_word = true;  // or is not: what failed does not decide
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
