// SPDX-License-Identifier: Apache-2.0
// The expression language of kernel specs: Python's, without statements. See kernel.proto.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/value.h"

namespace tune {

// Names and their values. A later Set of the same name replaces the earlier one.
class Scope {
 public:
  void Set(const std::string& name, Value value) { values_[name] = std::move(value); }
  const Value* Find(const std::string& name) const {
    auto it = values_.find(name);
    return it == values_.end() ? nullptr : &it->second;
  }
  const std::map<std::string, Value>& values() const { return values_; }

 private:
  std::map<std::string, Value> values_;
};

// A parsed expression. Immutable, cheap to copy, thread-safe.
class Expression {
 public:
  // INVALID_ARGUMENT: "unexpected ')' at column 8 of 'a * (b))'". At most 4096 characters and 64
  // levels of nesting.
  static absl::StatusOr<Expression> Parse(const std::string& text);

  const std::string& text() const;
  // Free names, sorted, each once.
  const std::vector<std::string>& names() const;

  // INVALID_ARGUMENT, with column and names in scope, if a free name is not one of these.
  absl::Status CheckNames(const std::set<std::string>& in_scope) const;

  // INVALID_ARGUMENT: unknown name (with the names in scope), division by zero, a wrong type, an
  // integer overflow; always with the column. Integers are 64-bit; `/` of integers gives a float;
  // `//` and `%` round towards minus infinity, as Python's.
  absl::StatusOr<Value> Evaluate(const Scope& scope) const;
  absl::StatusOr<int64_t> EvaluateInteger(const Scope& scope) const;  // a whole float will do
  absl::StatusOr<double> EvaluateNumber(const Scope& scope) const;
  absl::StatusOr<bool> EvaluateBoolean(const Scope& scope) const;  // Python's truth
  absl::StatusOr<std::string> EvaluateText(const Scope& scope) const;
  // For an expression that gives a list, such as a param's values.
  absl::StatusOr<std::vector<Value>> EvaluateList(const Scope& scope) const;

  // The syntax tree, for code that compiles it; see ast.h.
  struct Node;
  const std::shared_ptr<const Node>& root() const;

 private:
  struct Parsed;
  class Evaluation;
  explicit Expression(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace tune
