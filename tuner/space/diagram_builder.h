// SPDX-License-Identifier: Apache-2.0
// Builds the diagram of a component from its constraints, level by level from the first param on.
// Every node is extended by every digit, many at a time. Assignments that a constraint rejects are
// dropped, and nodes with the same slots become one. Internal to tuner/space.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "tuner/space/column_plan.h"
#include "tuner/space/diagram.h"
#include "tuner/space/term.h"

namespace tune {

enum class Verdict : uint8_t { kTrue, kFalse, kFailed };

// Runs an opaque atom. `digits` has one for each param, and only the atom's own matter.
using RunProgram = absl::FunctionRef<Verdict(size_t program, const std::vector<uint16_t>& digits)>;

struct DiagramInput {
  const TermGraph* graph = nullptr;
  const std::vector<std::vector<Word>>* param_words = nullptr;  // of each digit of each param
  const std::vector<size_t>* radices = nullptr;
  std::vector<Atom> atoms;
  std::vector<size_t> order;  // of the params
};

struct DiagramCost {
  uint64_t work = 0;   // operations on words, roughly
  uint64_t bytes = 0;  // held at once, without buffers of a fixed size
  uint64_t edges = 0;
};

struct DiagramLimits : DiagramCost {
  // Asked every few milliseconds; true ends the work. May be empty.
  std::function<bool()> stopped;

  bool ShouldStop() const { return stopped && stopped(); }
};

struct DiagramResult {
  enum class Kind { kDone, kTooWide, kTooMany, kStopped };
  Kind kind = Kind::kDone;
  std::optional<Diagram> diagram;
  // The digits of an assignment that no atom rejects and on which one fails, by param of the space.
  std::optional<std::vector<uint16_t>> failed;
  size_t level = 0;   // where it was too wide
  uint64_t work = 0;  // done
};

DiagramResult BuildDiagram(const DiagramInput& input, const DiagramLimits& limits, RunProgram run);

}  // namespace tune
