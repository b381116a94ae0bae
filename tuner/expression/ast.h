// SPDX-License-Identifier: Apache-2.0
// The syntax tree of an expression. Internal to tuner/expression and to what compiles its trees.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tuner/expression/expression.h"
#include "tuner/expression/operators.h"
#include "tuner/value.h"

namespace tune {

struct Expression::Node {
  enum class Kind {
    kLiteral,      // value
    kName,         // name
    kList,         // children: items
    kUnary,        // unary; children: operand
    kBinary,       // binary; children: left, right
    kCompare,      // compares[i] is between children[i] and children[i + 1]
    kAnd,          // children: left, right
    kOr,           // children: left, right
    kConditional,  // children: condition, then, else
    kCall,         // function; children: arguments
  };
  Kind kind = Kind::kLiteral;
  uint16_t column = 1;
  Value value;
  std::string name;
  UnaryOp unary = UnaryOp::kNegate;
  BinaryOp binary = BinaryOp::kAdd;
  Function function = Function::kMin;
  std::vector<CompareOp> compares;
  std::vector<uint16_t> compare_columns;
  std::vector<std::shared_ptr<const Node>> children;
};

using NodePointer = std::shared_ptr<const Expression::Node>;

// Parses `text`, whose free names go to `names`, sorted.
absl::StatusOr<NodePointer> ParseNode(const std::string& text, std::vector<std::string>* names);

// The parts that must all be true for the expression to be: split at `and` and at chained
// comparisons, so that each can be decided as soon as its own names are known.
std::vector<NodePointer> Conjuncts(const Expression& expression);

// " at column 7 of 'a * b'"; a long text is clipped around the column.
std::string AtColumn(uint16_t column, const std::string& text);

// "; write 'and'" for "&&" or "AND", and so for what else is another name here than in C, SQL or
// JSON. Empty for any other word.
std::string WriteInstead(absl::string_view word);

}  // namespace tune
