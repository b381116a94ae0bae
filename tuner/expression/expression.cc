// SPDX-License-Identifier: Apache-2.0
#include "tuner/expression/expression.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "tuner/expression/ast.h"
#include "tuner/expression/bytecode.h"

namespace tune {

struct Expression::Parsed {
  std::string text;
  std::vector<std::string> names;
  NodePointer root;
  std::optional<Bytecode> program;  // slot i is names[i]
};

namespace {

// The column at which a name first appears, or 0.
uint16_t ColumnOf(const Expression::Node& node, const std::string& name) {
  if (node.kind == Expression::Node::Kind::kName && node.name == name) return node.column;
  for (const NodePointer& child : node.children) {
    if (const uint16_t column = ColumnOf(*child, name)) return column;
  }
  return 0;
}

std::string InScope(const std::set<std::string>& names) {
  return absl::StrCat("; in scope: ", absl::StrJoin(names, ", "));
}

}  // namespace

// Runs the program once and keeps the result, which may point into the machine.
class Expression::Evaluation {
 public:
  Evaluation(const Parsed& parsed, const Scope& scope) : parsed_(parsed), scope_(scope) {}

  absl::Status Run() {
    absl::InlinedVector<Cell, 8> slots(parsed_.names.size());
    bool all_known = true;
    for (size_t i = 0; i < slots.size(); ++i) {
      const Value* value = scope_.Find(parsed_.names[i]);
      if (value != nullptr) slots[i] = ToCell(*value);
      all_known &= value != nullptr;
    }
    if (parsed_.program->Run(slots.data(), &machine_, &result_)) return absl::OkStatus();
    std::set<std::string> names;
    for (const auto& [name, value] : scope_.values()) names.insert(name);
    const bool unknown = !all_known && absl::StartsWith(machine_.error, "unknown name");
    return absl::InvalidArgumentError(absl::StrCat(machine_.error, unknown ? InScope(names) : ""));
  }

  const Cell& result() const { return result_; }

  absl::Status WrongResult(absl::string_view needed) const {
    std::string found = result_.kind == Cell::Kind::kList ? "a list" : ToText(ToValue(result_));
    if (result_.kind == Cell::Kind::kText) found = absl::StrCat("'", found, "'");
    return absl::InvalidArgumentError(absl::StrCat(needed, " is needed, not ", found,
                                                   AtColumn(parsed_.root->column, parsed_.text)));
  }

 private:
  const Parsed& parsed_;
  const Scope& scope_;
  Machine machine_;
  Cell result_;
};

absl::StatusOr<Expression> Expression::Parse(const std::string& text) {
  auto parsed = std::make_shared<Parsed>();
  parsed->text = text;
  ASSIGN_OR_RETURN(parsed->root, ParseNode(text, &parsed->names));
  Expression expression(parsed);
  parsed->program = Bytecode::Compile(expression, [&](const std::string& name) {
    const auto it = std::lower_bound(parsed->names.begin(), parsed->names.end(), name);
    return Bytecode::Binding(static_cast<uint32_t>(it - parsed->names.begin()));
  });
  return expression;
}

const std::string& Expression::text() const { return parsed_->text; }
const std::vector<std::string>& Expression::names() const { return parsed_->names; }
const NodePointer& Expression::root() const { return parsed_->root; }

absl::Status Expression::CheckNames(const std::set<std::string>& in_scope) const {
  for (const std::string& name : parsed_->names) {
    if (in_scope.count(name) > 0) continue;
    const std::string instead = WriteInstead(name);
    return absl::InvalidArgumentError(absl::StrCat("unknown name '", name, "'",
                                                   AtColumn(ColumnOf(*parsed_->root, name), text()),
                                                   instead.empty() ? InScope(in_scope) : instead));
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Expression::Evaluate(const Scope& scope) const {
  Evaluation evaluation(*parsed_, scope);
  RETURN_IF_ERROR(evaluation.Run());
  if (evaluation.result().kind == Cell::Kind::kList)
    return evaluation.WrongResult("a single value");
  return ToValue(evaluation.result());
}

absl::StatusOr<int64_t> Expression::EvaluateInteger(const Scope& scope) const {
  Evaluation evaluation(*parsed_, scope);
  RETURN_IF_ERROR(evaluation.Run());
  const Cell& result = evaluation.result();
  if (result.is_integral()) return result.integer;
  constexpr double kExact = 9007199254740992.0;  // beyond 2^53 a float no longer names one integer
  const bool whole = result.kind == Cell::Kind::kReal && result.real == std::floor(result.real) &&
                     std::abs(result.real) <= kExact;
  if (!whole) return evaluation.WrongResult("a whole number");
  return static_cast<int64_t>(result.real);
}

absl::StatusOr<double> Expression::EvaluateNumber(const Scope& scope) const {
  Evaluation evaluation(*parsed_, scope);
  RETURN_IF_ERROR(evaluation.Run());
  if (!evaluation.result().is_number()) return evaluation.WrongResult("a number");
  return evaluation.result().AsReal();
}

absl::StatusOr<bool> Expression::EvaluateBoolean(const Scope& scope) const {
  Evaluation evaluation(*parsed_, scope);
  RETURN_IF_ERROR(evaluation.Run());
  return IsTrue(evaluation.result());
}

absl::StatusOr<std::string> Expression::EvaluateText(const Scope& scope) const {
  Evaluation evaluation(*parsed_, scope);
  RETURN_IF_ERROR(evaluation.Run());
  if (evaluation.result().kind != Cell::Kind::kText) return evaluation.WrongResult("a string");
  return *evaluation.result().text;
}

absl::StatusOr<std::vector<Value>> Expression::EvaluateList(const Scope& scope) const {
  Evaluation evaluation(*parsed_, scope);
  RETURN_IF_ERROR(evaluation.Run());
  if (evaluation.result().kind != Cell::Kind::kList) return evaluation.WrongResult("a list");
  std::vector<Value> values;
  for (const Cell& cell : *evaluation.result().list) values.push_back(ToValue(cell));
  return values;
}

}  // namespace tune
