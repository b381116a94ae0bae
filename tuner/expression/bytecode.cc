// SPDX-License-Identifier: Apache-2.0
#include "tuner/expression/bytecode.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "tuner/expression/ast.h"

namespace tune {

using Node = Expression::Node;

namespace {

// The most text and lists that a program stores. Larger ones are computed again in every run.
constexpr size_t kMaxFoldedBytes = 64 * 1024;
// A stretch that fails is tried again with each operator round it, so there is an end to trying.
constexpr int kMaxFoldFailures = 16;

size_t BytesOf(const Cell& cell) {
  if (cell.kind == Cell::Kind::kText) return cell.text->size();
  if (cell.kind != Cell::Kind::kList) return 0;
  size_t bytes = 0;
  for (const Cell& item : *cell.list) bytes += sizeof(Cell) + BytesOf(item);
  return bytes;
}

}  // namespace

// Emits the code of a tree bottom up. A stretch of code without slots is run on the spot and
// replaced by its result; one that fails is left, so that it fails only if it is reached.
class BytecodeBuilder {
 public:
  BytecodeBuilder(const std::string& text, const Bytecode::Binder& binder) : binder_(binder) {
    program_.text_ = text;
    program_.constant_memory_ = std::make_shared<Arena>();
  }

  Bytecode Build(const Node& node) && {
    Emit(node);
    for (const Bytecode::Instruction& instruction : program_.code_) {
      program_.cost_ += CostOf(instruction);
      if (instruction.code != Bytecode::Code::kSlot) continue;
      if (std::find(program_.slots_.begin(), program_.slots_.end(), instruction.operand) ==
          program_.slots_.end()) {
        program_.slots_.push_back(instruction.operand);
      }
    }
    std::sort(program_.slots_.begin(), program_.slots_.end());
    for (uint32_t slot : program_.slots_) program_.slot_names_.push_back(slot_names_[slot]);
    return std::move(program_);
  }

 private:
  using Code = Bytecode::Code;

  size_t Add(Code code, uint16_t column, uint8_t op = 0, size_t operand = 0) {
    program_.code_.push_back({code, op, column, static_cast<uint32_t>(operand)});
    return program_.code_.size() - 1;
  }
  // A list costs as much as walking it; one that is not there yet, as the longest.
  uint64_t CostOf(const Bytecode::Instruction& instruction) const {
    const Function function = static_cast<Function>(instruction.op);
    if (instruction.code == Code::kConstant) {
      return 1 + BytesOf(program_.constants_[instruction.operand]) / sizeof(Cell);
    }
    const bool makes_list = instruction.code == Code::kList ||
                            (instruction.code == Code::kCall &&
                             (function == Function::kRange || function == Function::kPow2));
    return makes_list ? kMaxListItems : 1;
  }
  void PatchToHere(size_t at) {
    program_.code_[at].operand = static_cast<uint32_t>(program_.code_.size());
  }

  // Copies text and lists, which may belong to a scratch arena, to the program.
  Cell Own(const Cell& cell) {
    Arena& memory = *program_.constant_memory_;
    if (cell.kind == Cell::Kind::kText) return Cell::Text(memory.Keep(*cell.text));
    if (cell.kind != Cell::Kind::kList) return cell;
    std::vector<Cell> items;
    for (const Cell& item : *cell.list) items.push_back(Own(item));
    return Cell::List(memory.Keep(std::move(items)));
  }
  void AddConstant(const Cell& cell, uint16_t column) {
    program_.constants_.push_back(Own(cell));
    Add(Code::kConstant, column, 0, program_.constants_.size() - 1);
  }
  // The constant that the code since `start` has been folded to, or null.
  const Cell* ConstantSince(size_t start) const {
    if (program_.code_.size() != start + 1) return nullptr;
    const Bytecode::Instruction& only = program_.code_[start];
    return only.code == Code::kConstant ? &program_.constants_[only.operand] : nullptr;
  }

  void Fold(size_t start, uint16_t column) {
    const size_t end = program_.code_.size();
    if (end <= start + 1 || fold_failures_ > kMaxFoldFailures) return;
    for (size_t i = start; i < end; ++i) {
      if (program_.code_[i].code == Code::kSlot) return;
    }
    Machine machine;
    Cell result;
    if (!program_.RunRange(start, end, nullptr, &machine, &result)) {
      ++fold_failures_;
      return;
    }
    if (BytesOf(result) > kMaxFoldedBytes - folded_bytes_) {
      fold_failures_ = kMaxFoldFailures + 1;
      return;
    }
    folded_bytes_ += BytesOf(result);
    program_.code_.resize(start);
    AddConstant(result, column);
  }

  void Emit(const Node& node) {
    const size_t start = program_.code_.size();
    switch (node.kind) {
      case Node::Kind::kLiteral:
        AddConstant(ToCell(node.value), node.column);
        break;
      case Node::Kind::kName:
        EmitName(node);
        break;
      case Node::Kind::kAnd:
      case Node::Kind::kOr:
        EmitLogic(node, start);
        break;
      case Node::Kind::kConditional:
        EmitConditional(node, start);
        break;
      case Node::Kind::kCompare:
        EmitCompare(node);
        break;
      case Node::Kind::kUnary:
        Emit(*node.children[0]);
        Add(Code::kUnary, node.column, static_cast<uint8_t>(node.unary));
        break;
      case Node::Kind::kBinary:
        Emit(*node.children[0]);
        Emit(*node.children[1]);
        Add(Code::kBinary, node.column, static_cast<uint8_t>(node.binary));
        break;
      case Node::Kind::kList:
      case Node::Kind::kCall:
        for (const NodePointer& child : node.children) Emit(*child);
        Add(node.kind == Node::Kind::kList ? Code::kList : Code::kCall, node.column,
            static_cast<uint8_t>(node.function), node.children.size());
        break;
    }
    Fold(start, node.column);
  }

  void EmitName(const Node& node) {
    auto [it, inserted] = bindings_.try_emplace(node.name);
    if (inserted) it->second = binder_(node.name);
    if (const Value* value = std::get_if<Value>(&it->second)) {
      AddConstant(ToCell(*value), node.column);
      return;
    }
    const uint32_t slot = std::get<uint32_t>(it->second);
    slot_names_[slot] = node.name;
    Add(Code::kSlot, node.column, 0, slot);
  }

  void EmitLogic(const Node& node, size_t start) {
    const bool is_and = node.kind == Node::Kind::kAnd;
    Emit(*node.children[0]);
    if (const Cell* left = ConstantSince(start)) {
      if (IsTrue(*left) != is_and) return;  // decided: the value is the left one
      program_.code_.resize(start);
      Emit(*node.children[1]);
      return;
    }
    const size_t jump = Add(is_and ? Code::kJumpIfFalseKeep : Code::kJumpIfTrueKeep, node.column);
    Emit(*node.children[1]);
    PatchToHere(jump);
  }

  void EmitConditional(const Node& node, size_t start) {
    Emit(*node.children[0]);
    if (const Cell* condition = ConstantSince(start)) {
      const bool chosen = IsTrue(*condition);
      program_.code_.resize(start);
      Emit(*node.children[chosen ? 1 : 2]);
      return;
    }
    const size_t to_else = Add(Code::kJumpIfFalse, node.column);
    Emit(*node.children[1]);
    const size_t to_end = Add(Code::kJump, node.column);
    PatchToHere(to_else);
    Emit(*node.children[2]);
    PatchToHere(to_end);
  }

  void EmitCompare(const Node& node) {
    std::vector<size_t> exits;
    Emit(*node.children[0]);
    for (size_t i = 0; i < node.compares.size(); ++i) {
      Emit(*node.children[i + 1]);
      const bool last = i + 1 == node.compares.size();
      const size_t at = Add(last ? Code::kCompare : Code::kChain, node.compare_columns[i],
                            static_cast<uint8_t>(node.compares[i]));
      if (!last) exits.push_back(at);
    }
    for (size_t at : exits) PatchToHere(at);
  }

  const Bytecode::Binder& binder_;
  Bytecode program_;
  size_t folded_bytes_ = 0;
  int fold_failures_ = 0;
  std::map<std::string, Bytecode::Binding> bindings_;
  std::map<uint32_t, std::string> slot_names_;
};

namespace {

bool IsNotOr(const Node& node) {
  return node.kind == Node::Kind::kUnary && node.unary == UnaryOp::kNot &&
         node.children[0]->kind == Node::Kind::kOr;
}

void SplitConjuncts(const NodePointer& node, std::vector<NodePointer>* conjuncts) {
  if (IsNotOr(*node)) {
    // Neither of the two.
    for (const NodePointer& child : node->children[0]->children) {
      auto negated = std::make_shared<Node>(*node);
      negated->children = {child};
      SplitConjuncts(negated, conjuncts);
    }
    return;
  }
  if (node->kind == Node::Kind::kAnd) {
    for (const NodePointer& child : node->children) SplitConjuncts(child, conjuncts);
    return;
  }
  if (node->kind != Node::Kind::kCompare || node->compares.size() == 1) {
    conjuncts->push_back(node);
    return;
  }
  for (size_t i = 0; i < node->compares.size(); ++i) {
    auto pair = std::make_shared<Node>(*node);
    pair->compares = {node->compares[i]};
    pair->compare_columns = {node->compare_columns[i]};
    pair->children = {node->children[i], node->children[i + 1]};
    conjuncts->push_back(std::move(pair));
  }
}

}  // namespace

Bytecode Bytecode::Compile(const Expression& expression, const Binder& binder) {
  return BytecodeBuilder(expression.text(), binder).Build(*expression.root());
}

std::vector<NodePointer> Conjuncts(const Expression& expression) {
  std::vector<NodePointer> conjuncts;
  SplitConjuncts(expression.root(), &conjuncts);
  return conjuncts;
}

std::vector<Bytecode> Bytecode::CompileConjuncts(const Expression& expression,
                                                 const Binder& binder) {
  std::vector<Bytecode> programs;
  for (const NodePointer& conjunct : Conjuncts(expression)) {
    programs.push_back(BytecodeBuilder(expression.text(), binder).Build(*conjunct));
  }
  return programs;
}

bool Bytecode::Run(const Cell* slots, Machine* machine, Cell* result) const {
  return RunRange(0, code_.size(), slots, machine, result);
}

bool Bytecode::Fail(const Instruction& at, Machine* machine) const {
  machine->error += AtColumn(at.column, text_);
  return false;
}

bool Bytecode::PushSlot(const Instruction& at, const Cell& cell, Machine* machine) const {
  if (cell.kind == Cell::Kind::kFailed) {
    machine->error = *cell.text;
    return false;
  }
  if (cell.kind == Cell::Kind::kAbsent) {
    const auto it = std::lower_bound(slots_.begin(), slots_.end(), at.operand);
    machine->error = absl::StrCat("unknown name '", slot_names_[it - slots_.begin()], "'");
    return Fail(at, machine);
  }
  machine->stack.push_back(cell);
  return true;
}

bool Bytecode::CallOrList(const Instruction& at, Machine* machine) const {
  auto& stack = machine->stack;
  const size_t count = at.operand;
  const Cell* items = stack.data() + stack.size() - count;
  Cell made;
  const bool ok = at.code == Code::kList
                      ? MakeList(items, count, &machine->arena, &made, &machine->error)
                      : ApplyFunction(static_cast<Function>(at.op), items, count, &machine->arena,
                                      &made, &machine->error);
  if (!ok) return Fail(at, machine);
  stack.resize(stack.size() - count);
  stack.push_back(made);
  return true;
}

bool Bytecode::RunRange(size_t begin, size_t end, const Cell* slots, Machine* machine,
                        Cell* result) const {
  auto& stack = machine->stack;
  stack.clear();
  auto pop = [&stack] {
    const Cell top = stack.back();
    stack.pop_back();
    return top;
  };
  for (size_t i = begin; i < end;) {
    const Instruction& at = code_[i++];
    switch (at.code) {
      case Code::kConstant:
        stack.push_back(constants_[at.operand]);
        break;
      case Code::kSlot:
        if (!PushSlot(at, slots[at.operand], machine)) return false;
        break;
      case Code::kUnary: {
        const Cell operand = stack.back();
        const UnaryOp op = static_cast<UnaryOp>(at.op);
        if (!ApplyUnary(op, operand, &stack.back(), &machine->error)) return Fail(at, machine);
        break;
      }
      case Code::kBinary: {
        const Cell right = pop();
        const Cell left = stack.back();
        if (!ApplyBinary(static_cast<BinaryOp>(at.op), left, right, &machine->arena, &stack.back(),
                         &machine->error)) {
          return Fail(at, machine);
        }
        break;
      }
      case Code::kCompare:
      case Code::kChain: {
        const Cell right = pop();
        const CompareOp op = static_cast<CompareOp>(at.op);
        bool holds = false;
        if (!ApplyCompare(op, stack.back(), right, &holds, &machine->error)) {
          return Fail(at, machine);
        }
        const bool goes_on = at.code == Code::kChain && holds;
        stack.back() = goes_on ? right : Cell::Boolean(holds);
        if (at.code == Code::kChain && !holds) i = at.operand;
        break;
      }
      case Code::kCall:
      case Code::kList:
        if (!CallOrList(at, machine)) return false;
        break;
      case Code::kJump:
        i = at.operand;
        break;
      case Code::kJumpIfFalse:
        if (!IsTrue(pop())) i = at.operand;
        break;
      case Code::kJumpIfFalseKeep:
      case Code::kJumpIfTrueKeep:
        if (IsTrue(stack.back()) == (at.code == Code::kJumpIfTrueKeep)) {
          i = at.operand;
        } else {
          stack.pop_back();
        }
        break;
    }
  }
  *result = stack.back();
  return true;
}

}  // namespace tune
