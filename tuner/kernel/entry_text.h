// SPDX-License-Identifier: Apache-2.0
// The entry of a step as a spec names it: a kernel, or an instance of a template, with expressions
// in braces. Internal to tuner/kernel.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tuner/expression/expression.h"
#include "tuner/value.h"

namespace tune {

using Macros = std::vector<std::pair<std::string, std::string>>;

class EntryText {
 public:
  // Makes an expression of the text between braces, or says what is wrong with it.
  using Parse = std::function<absl::StatusOr<Expression>(const std::string& text)>;
  // Gives the value of such an expression.
  using Evaluate = std::function<absl::StatusOr<Value>(const Expression& expression)>;

  // INVALID_ARGUMENT: what can be no entry, whatever the values are.
  static absl::StatusOr<EntryText> Read(const std::string& text, const Parse& parse);

  // "ops::sum<128, float>": with the values of its expressions, and between the angle brackets
  // those of macros.
  absl::StatusOr<std::string> With(const Evaluate& evaluate, const Macros& macros) const;

  bool is_instance() const { return is_instance_; }

 private:
  struct Part {
    std::string text;
    std::optional<Expression> expression;  // instead
  };
  std::vector<Part> parts_;
  bool is_instance_ = false;
};

}  // namespace tune
