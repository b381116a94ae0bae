// SPDX-License-Identifier: Apache-2.0
#include "tuner/expression/python_list.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "tuner/expression/expression.h"
#include "tuner/expression/operators.h"

namespace tune {
namespace {

constexpr size_t kMaxValues = 65536;
constexpr int kMaxSteps = 65536;
constexpr int kMaxDepth = 16;
constexpr size_t kMaxText = 4096;

using Values = std::vector<Value>;

std::string Strip(absl::string_view text) { return std::string(absl::StripAsciiWhitespace(text)); }

// The text without what stands in brackets or quotes, which becomes '_': a word that is found there
// is one of this level.
std::string TopLevel(absl::string_view text) {
  std::string top(text);
  int depth = 0;
  char quote = 0;
  for (char& c : top) {
    const char read = c;
    if (quote != 0) {
      if (read == quote) quote = 0;
      c = '_';
    } else if (read == '\'' || read == '"') {
      quote = read;
      c = '_';
    } else if (read == '(' || read == '[') {
      if (depth++ > 0) c = '_';
    } else if (read == ')' || read == ']') {
      if (--depth > 0) c = '_';
    } else if (depth > 0) {
      c = '_';
    }
  }
  return top;
}

// The text between a leading `open` and the bracket that closes it, if that is the last character.
std::optional<std::string> Inside(absl::string_view text, char open, char close) {
  if (text.size() < 2 || text.front() != open || text.back() != close) return std::nullopt;
  const std::string top = TopLevel(text);
  if (top.find(close) != top.size() - 1) return std::nullopt;
  return Strip(text.substr(1, text.size() - 2));
}

// Parts at a separator of this level.
std::vector<std::string> SplitAt(absl::string_view text, const std::string& separator) {
  const std::string top = TopLevel(text);
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t at = top.find(separator); at != std::string::npos;
       at = top.find(separator, at + separator.size())) {
    parts.push_back(Strip(text.substr(begin, at - begin)));
    begin = at + separator.size();
  }
  parts.push_back(Strip(text.substr(begin)));
  return parts;
}

class Reader {
 public:
  absl::StatusOr<Values> List(const std::string& text, const Scope& scope) {
    if (++depth_ > kMaxDepth) return absl::InvalidArgumentError("nested too deeply");
    absl::StatusOr<Values> values = Sum(text, scope);
    --depth_;
    return values;
  }

 private:
  absl::StatusOr<Values> Sum(const std::string& text, const Scope& scope) {
    const std::vector<std::string> terms = SplitAt(text, "+");
    if (terms.size() == 1) return Term(terms[0], scope);
    Values sum;
    for (const std::string& term : terms) {
      ASSIGN_OR_RETURN(const Values values, List(term, scope));
      RETURN_IF_ERROR(Add(values, sum));
    }
    return sum;
  }

  absl::StatusOr<Values> Term(const std::string& text, const Scope& scope) {
    for (const absl::string_view call : {"list", "tuple", "sorted", "set"}) {
      absl::string_view rest = text;
      if (!absl::ConsumePrefix(&rest, call)) continue;
      const std::optional<std::string> inner = Inside(absl::StripAsciiWhitespace(rest), '(', ')');
      if (!inner.has_value()) continue;
      ASSIGN_OR_RETURN(Values values, Argument(*inner, scope));
      if (call == "set") RemoveDuplicates(values);
      if (call == "sorted") RETURN_IF_ERROR(Sort(values));
      return values;
    }
    if (absl::StartsWith(text, "range")) {
      const std::optional<std::string> inner = Inside(Strip(text.substr(5)), '(', ')');
      if (inner.has_value() && SplitAt(*inner, ",").size() == 1) {
        return Plain(absl::StrCat("range(0, ", *inner, ")"), scope);
      }
    }
    if (const std::optional<std::string> inner = Inside(text, '[', ']')) {
      if (IsComprehension(*inner)) return Comprehension(*inner, scope);
    }
    if (const std::optional<std::string> inner = Inside(text, '(', ')')) {
      if (SplitAt(*inner, ",").size() == 1) return List(*inner, scope);
    }
    return Plain(text, scope);
  }

  // The argument of list(...): a list, or a comprehension without its brackets.
  absl::StatusOr<Values> Argument(const std::string& text, const Scope& scope) {
    return IsComprehension(text) ? Comprehension(text, scope) : List(text, scope);
  }

  static bool IsComprehension(const std::string& text) { return SplitAt(text, " for ").size() > 1; }

  absl::StatusOr<Values> Comprehension(const std::string& text, const Scope& scope) {
    const std::vector<std::string> parts = SplitAt(text, " for ");
    ASSIGN_OR_RETURN(const Expression element, Expression::Parse(parts[0]));
    Values values;
    RETURN_IF_ERROR(Walk(parts, 1, element, scope, values));
    return values;
  }

  // The loop of parts[level], "i in LIST if CONDITION", and those within.
  absl::Status Walk(const std::vector<std::string>& parts, size_t level, const Expression& element,
                    const Scope& scope, Values& values) {
    if (level == parts.size()) {
      ASSIGN_OR_RETURN(Value value, element.Evaluate(scope));
      return Add({std::move(value)}, values);
    }
    const std::vector<std::string> conditions = SplitAt(parts[level], " if ");
    const std::vector<std::string> head = SplitAt(conditions[0], " in ");
    if (head.size() != 2 || !IsName(head[0])) {
      return absl::InvalidArgumentError(
          absl::StrCat("'for ", parts[level], "' is not understood: 'for NAME in LIST' is"));
    }
    ASSIGN_OR_RETURN(const Values items, List(head[1], scope));
    for (const Value& item : items) {
      if (++steps_ > kMaxSteps) {
        return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxSteps, " steps"));
      }
      Scope inner = scope;
      inner.Set(head[0], item);
      bool holds = true;
      for (size_t i = 1; i < conditions.size() && holds; ++i) {
        ASSIGN_OR_RETURN(const Expression condition, Expression::Parse(conditions[i]));
        ASSIGN_OR_RETURN(holds, condition.EvaluateBoolean(inner));
      }
      if (holds) RETURN_IF_ERROR(Walk(parts, level + 1, element, inner, values));
    }
    return absl::OkStatus();
  }

  static bool IsName(const std::string& text) {
    return !text.empty() && !absl::ascii_isdigit(text[0]) && !IsReservedName(text) &&
           std::all_of(text.begin(), text.end(),
                       [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
  }

  static absl::StatusOr<Values> Plain(const std::string& text, const Scope& scope) {
    ASSIGN_OR_RETURN(const Expression list, Expression::Parse(text));
    return list.EvaluateList(scope);
  }

  static absl::Status Add(const Values& more, Values& values) {
    if (values.size() + more.size() > kMaxValues) {
      return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxValues, " values"));
    }
    values.insert(values.end(), more.begin(), more.end());
    return absl::OkStatus();
  }

  static void RemoveDuplicates(Values& values) {
    Values kept;
    for (Value& value : values) {
      const bool is_new = std::find(kept.begin(), kept.end(), value) == kept.end();
      if (is_new) kept.push_back(std::move(value));
    }
    values = std::move(kept);
  }

  static absl::Status Sort(Values& values) {
    const bool whole = std::all_of(values.begin(), values.end(), [](const Value& value) {
      return std::holds_alternative<int64_t>(value);
    });
    if (!whole) return absl::InvalidArgumentError("sorted() of what are not all integers");
    std::sort(values.begin(), values.end(), [](const Value& a, const Value& b) {
      return std::get<int64_t>(a) < std::get<int64_t>(b);
    });
    return absl::OkStatus();
  }

  int depth_ = 0;
  int steps_ = 0;
};

}  // namespace

absl::StatusOr<Values> ParsePythonList(const std::string& text) {
  if (text.size() > kMaxText) {
    return absl::InvalidArgumentError(
        absl::StrCat("a list of ", text.size(), " characters; at most ", kMaxText));
  }
  return Reader().List(Strip(text), Scope());
}

}  // namespace tune
