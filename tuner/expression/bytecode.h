// SPDX-License-Identifier: Apache-2.0
// An expression compiled to flat code over numbered slots, with everything constant folded. This is
// what evaluates; the syntax tree only describes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "tuner/expression/expression.h"
#include "tuner/expression/operators.h"

namespace tune {

// Working memory of evaluations, kept from one to the next. Not thread-safe.
struct Machine {
  absl::InlinedVector<Cell, 8> stack;
  Arena arena;        // cleared by the owner, between evaluations whose results are done with
  std::string error;  // why the last Run failed: "division by zero at column 3 of 'a / b'"
};

// Immutable. Thread-safe, each thread with its own machine.
class Bytecode {
 public:
  // The meaning of a name: a slot whose value comes with each run, or a value known now.
  using Binding = std::variant<uint32_t, Value>;
  // Called once for each free name.
  using Binder = std::function<Binding(const std::string& name)>;

  static Bytecode Compile(const Expression& expression, const Binder& binder);
  // The parts that must all be true for the expression to be: split at `and` and at chained
  // comparisons, so that each can be decided as soon as its own names are known.
  static std::vector<Bytecode> CompileConjuncts(const Expression& expression, const Binder& binder);

  // False, with machine->error, if it cannot be evaluated. A slot may be absent or failed as long
  // as it is not needed.
  bool Run(const Cell* slots, Machine* machine, Cell* result) const;

  // How much work a run is at most, in instructions; for limits on many runs.
  uint64_t cost() const { return cost_; }
  // Slots the code reads, sorted, each once.
  const std::vector<uint32_t>& slots() const { return slots_; }

 private:
  friend class BytecodeBuilder;
  enum class Code : uint8_t {
    kConstant,  // push constants_[operand]
    kSlot,      // push slots[operand]
    kUnary,
    kBinary,
    kCompare,  // replace two by a boolean
    kChain,    // as kCompare; false: jump to operand; true: drop it and push the right one
    kCall,     // operand: how many arguments
    kList,     // operand: how many items
    kJump,
    kJumpIfFalse,      // pops
    kJumpIfFalseKeep,  // jumps with the value on the stack, else pops it
    kJumpIfTrueKeep,
  };
  struct Instruction {
    Code code;
    uint8_t op = 0;  // UnaryOp, BinaryOp, CompareOp or Function
    uint16_t column = 1;
    uint32_t operand = 0;
  };

  Bytecode() = default;
  bool Fail(const Instruction& at, Machine* machine) const;
  bool PushSlot(const Instruction& at, const Cell& cell, Machine* machine) const;
  bool CallOrList(const Instruction& at, Machine* machine) const;
  bool RunRange(size_t begin, size_t end, const Cell* slots, Machine* machine, Cell* result) const;

  std::string text_;
  uint64_t cost_ = 0;
  std::vector<Instruction> code_;
  std::vector<Cell> constants_;
  std::vector<uint32_t> slots_;
  std::vector<std::string> slot_names_;     // parallel to slots_, for messages
  std::shared_ptr<Arena> constant_memory_;  // what constants_ point into
};

}  // namespace tune
