// SPDX-License-Identifier: Apache-2.0
// The expression language of kernel specs: Python's, without statements. See kernel.proto.
#pragma once

#include <cstdint>
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
  void Set(const std::string& name, Value value) {
    const size_t place = PlaceOf(name);
    if (place < values_.size()) {
      values_[place].second = std::move(value);
    } else {
      if (values_.empty()) values_.reserve(32);
      values_.emplace_back(name, std::move(value));
    }
  }
  const Value* Find(const std::string& name) const {
    const size_t place = PlaceOf(name);
    return place < values_.size() ? &values_[place].second : nullptr;
  }
  // In the order they were first set.
  const std::vector<std::pair<std::string, Value>>& values() const { return values_; }

 private:
  // The end: it is not there.
  size_t PlaceOf(const std::string& name) const {
    size_t place = 0;
    while (place < values_.size() && values_[place].first != name) ++place;
    return place;
  }

  // A few dozen, mostly: to search them is cheaper than to keep them in order.
  std::vector<std::pair<std::string, Value>> values_;
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
