// SPDX-License-Identifier: Apache-2.0
#include "tuner/source/conditions.h"

#include <algorithm>

#include "tuner/device_profile.h"

namespace tune {
namespace {

Holds Not(Holds holds) {
  return holds == Holds::kYes ? Holds::kNo : holds == Holds::kNo ? Holds::kYes : Holds::kMaybe;
}

}  // namespace

Conditions::Conditions(const CompilePlan& plan, const std::set<std::string>& macros)
    : cpu_(ProfileOfTarget(plan.target).is_host), macros_(macros) {}

Holds Conditions::IsDefined(const std::string& name) const {
  if (macros_.count(name) != 0) return Holds::kYes;
  if (name == "TUNE_REFERENCE") return Holds::kNo;
  if (name == "TUNE_CPU") return cpu_ ? Holds::kYes : Holds::kNo;
  if (name == "__CUDACC__" || name == "__CUDA_ARCH__" || name == "__CUDACC_RTC__") {
    return cpu_ ? Holds::kNo : Holds::kYes;
  }
  return Holds::kMaybe;
}

// Terms with "&&" between them, each of which is two tokens; anything else may hold.
Holds Conditions::Evaluate(const Tokens& tokens, size_t from) const {
  const auto is = [&](size_t at, const char* text) {
    return at < tokens.size() && tokens[at].text == text;
  };
  Holds holds = Holds::kYes;
  for (size_t at = from; at <= tokens.size(); ++at) {
    if (is(at, "|")) return Holds::kMaybe;
    if (at < tokens.size() && !(is(at, "&") && is(at + 1, "&"))) continue;
    holds = std::min(holds, EvaluateTerm(tokens, from, at));
    from = ++at + 1;
  }
  return holds;
}

// "0", "1", "X", "!X", "defined X", "!defined(X)"; anything else may hold.
Holds Conditions::EvaluateTerm(const Tokens& tokens, size_t from, size_t end) const {
  bool negated = false;  // counted, since a source may have a million of them
  for (; from < end && tokens[from].text == "!"; ++from) negated = !negated;
  const Holds holds = EvaluateOperand(tokens, from, end);
  return negated ? Not(holds) : holds;
}

Holds Conditions::EvaluateOperand(const Tokens& tokens, size_t from, size_t end) const {
  const size_t left = end - from;
  const auto text = [&](size_t i) { return tokens[from + i].text; };
  if (left == 1 && text(0) == "0") return Holds::kNo;
  if (left == 1 && text(0) == "1") return Holds::kYes;
  if (left == 1 && (text(0) == "TUNE_REFERENCE" || text(0) == "TUNE_CPU")) {
    return IsDefined(text(0));
  }
  if (left < 2 || text(0) != "defined") return Holds::kMaybe;
  if (left == 2) return IsDefined(text(1));
  return left == 4 && text(1) == "(" && text(3) == ")" ? IsDefined(text(2)) : Holds::kMaybe;
}

void Conditions::Branch(Holds holds) {
  if (conditions_.empty()) return;
  Condition& condition = conditions_.back();
  condition.earlier = std::max(condition.earlier, condition.now);
  condition.now = std::min(holds, Not(condition.earlier));
}

void Conditions::Read(const SourceLine& line, bool guard) {
  const Tokens& tokens = line.tokens;
  if (tokens.size() < 2) return;
  const std::string& name = tokens[1].text;
  if (name == "ifdef" || name == "ifndef") {
    const Holds defined = tokens.size() > 2 ? IsDefined(tokens[2].text) : Holds::kMaybe;
    const Holds holds = name == "ifdef" ? defined : Not(defined);
    conditions_.push_back(
        {.now = guard && holds == Holds::kMaybe ? Holds::kYes : holds, .around = Around()});
  } else if (name == "if") {
    conditions_.push_back({.now = Evaluate(tokens, 2), .around = Around()});
  } else if (name == "elif") {
    Branch(Evaluate(tokens, 2));
  } else if (name == "elifdef" || name == "elifndef") {
    Branch(Holds::kMaybe);
  } else if (name == "else") {
    Branch(Holds::kYes);
  } else if (name == "endif") {
    if (!conditions_.empty()) conditions_.pop_back();
  }
}

Holds Conditions::Around() const {
  if (conditions_.empty()) return Holds::kYes;
  return std::min(conditions_.back().around, conditions_.back().now);
}

}  // namespace tune
