// SPDX-License-Identifier: Apache-2.0
// The space of a kernel: its params and constraints, and whether the launches fit the target.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "tuner/kernel/evaluation.h"

namespace tune {
namespace {

constexpr int64_t kMaxClusterBlocks = 16;  // with the non-portable size allowed; 8 otherwise
constexpr int kFirstSmWithClusters = 90;
constexpr size_t kMaxParamText = 64;

// A param's text becomes a bare token of a macro.
bool IsToken(const std::string& text) {
  return !text.empty() && text.size() <= kMaxParamText &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

bool IsSame(const Value& a, const Value& b) {
  auto number = [](const Value& value) {
    if (const int64_t* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
    return std::get<double>(value);
  };
  auto is_number = [](const Value& value) {
    return std::holds_alternative<int64_t>(value) || std::holds_alternative<double>(value);
  };
  return is_number(a) && is_number(b) && a.index() != b.index() ? number(a) == number(b) : a == b;
}

// A value that is there more than once, or null.
const Value* FindTwice(const std::vector<Value>& values) {
  const bool alike = std::all_of(values.begin(), values.end(), [&](const Value& value) {
    return value.index() == values[0].index();
  });
  if (!alike) {
    for (auto it = values.begin(); it != values.end(); ++it) {
      const auto same = [&](const Value& value) { return IsSame(value, *it); };
      if (std::any_of(values.begin(), it, same)) return &*it;
    }
    return nullptr;
  }
  std::vector<const Value*> sorted;
  for (const Value& value : values) sorted.push_back(&value);
  std::sort(sorted.begin(), sorted.end(), [](const Value* a, const Value* b) { return *a < *b; });
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end(),
                                        [](const Value* a, const Value* b) { return *a == *b; });
  return twice == sorted.end() ? nullptr : *twice;
}

using Limit = ParsedFit::Limit;

// The constant of an expression that stands for a limit; no spec can take its name.
const char* NameOf(Limit limit) {
  switch (limit) {
    case Limit::kThreads:
      return "__threads_max";
    case Limit::kSharedBytes:
      return "__shared_bytes_max";
    case Limit::kClusterBlocks:
      return "__cluster_blocks_max";
    case Limit::kNone:
      break;
  }
  return "";
}

int64_t ValueOf(Limit limit, const TargetTraits& traits) {
  switch (limit) {
    case Limit::kThreads:
      return traits.max_threads_per_block;
    case Limit::kSharedBytes:
      return traits.max_shared_bytes;
    case Limit::kClusterBlocks:
      return traits.sm >= kFirstSmWithClusters ? kMaxClusterBlocks : 1;
    case Limit::kNone:
      break;
  }
  return 0;
}

// Prefix of the names of a step's lets.
std::string PrefixOf(size_t step) { return step == 0 ? "__" : absl::StrCat("__step", step, "_"); }

// Adds what a step's launch needs. Of a step that a config leaves out nothing is needed.
class LaunchFit {
 public:
  LaunchFit(const ParsedStep& step, size_t index, ParsedFit& fit)
      : step_(step), launch_(step.launch), prefix_(PrefixOf(index)), fit_(fit) {}

  void Add() {
    if (step_.when.has_value()) Let(Name("when"), *step_.when);
    AddAxes("grid", launch_.grid, {2147483647, 65535, 65535});
    AddAxes("block", launch_.block, {1024, 1024, 64});
    Require(ProductOf("block"), Limit::kThreads, "block: threads");
    if (!launch_.cluster.empty()) AddCluster();
    if (launch_.shared_bytes.has_value()) {
      Let(Name("shared_bytes"), *launch_.shared_bytes);
      Constrain(absl::StrCat("0 <= ", Name("shared_bytes")), "shared_bytes is not below zero'");
      Require(Name("shared_bytes"), Limit::kSharedBytes, "shared_bytes: bytes");
    }
  }

 private:
  static Expression Parsed(const std::string& text) { return *Expression::Parse(text); }
  std::string Name(const std::string& name) const { return prefix_ + name; }
  std::string Axis(const char* name, size_t i) const { return absl::StrCat(prefix_, name, "_", i); }
  std::string ProductOf(const char* name) const {
    return absl::StrCat(Axis(name, 0), " * ", Axis(name, 1), " * ", Axis(name, 2));
  }

  void Let(const std::string& name, const Expression& expression) {
    fit_.lets.push_back({name, expression});
  }
  void Constrain(const std::string& expression, const std::string& text,
                 Limit limit = Limit::kNone) {
    const std::string where = absl::StrCat("'", step_.field, ".", text);
    Expression when_it_runs = Parsed(
        step_.when ? absl::StrCat("not ", Name("when"), " or (", expression, ")") : expression);
    fit_.constraints.push_back({std::move(when_it_runs), where, limit});
  }
  void Require(const std::string& expression, Limit most, const std::string& what) {
    Constrain(absl::StrCat(expression, " <= ", NameOf(most)), what, most);
  }

  void AddAxes(const char* name, const std::vector<Expression>& axes,
               const std::vector<int64_t>& most) {
    for (size_t i = 0; i < 3; ++i) {
      const std::string axis = Axis(name, i);
      Let(axis, i < axes.size() ? axes[i] : Parsed("1"));
      if (i >= axes.size()) continue;
      Constrain(absl::StrCat("1 <= ", axis, " <= ", most[i], " and ", axis, " % 1 == 0"),
                absl::StrCat(name, "[", i, "] is a whole number from 1 to ", most[i], "'"));
    }
  }

  void AddCluster() {
    AddAxes("cluster", launch_.cluster, {kMaxClusterBlocks, kMaxClusterBlocks, kMaxClusterBlocks});
    Require(ProductOf("cluster"), Limit::kClusterBlocks, "cluster: blocks");
    for (size_t i = 0; i < 3; ++i) {
      Constrain(absl::StrCat(Axis("grid", i), " % ", Axis("cluster", i), " == 0"),
                absl::StrCat("cluster[", i, "] divides ", step_.field, ".grid[", i, "]'"));
    }
  }

  const ParsedStep& step_;
  const ParsedLaunch& launch_;
  const std::string prefix_;
  ParsedFit& fit_;
};

// A config runs something. By the lets of conditions, whose texts may be too long for one.
void AddAnyStep(const std::vector<ParsedStep>& steps, ParsedFit& fit) {
  std::vector<std::string> conditions;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].when.has_value()) return;
    conditions.push_back(PrefixOf(i) + "when");
  }
  Expression one_runs = *Expression::Parse(absl::StrJoin(conditions, " or "));
  fit.constraints.push_back({std::move(one_runs), "'steps: one of them runs'"});
}

}  // namespace

ParsedFit FitOf(const std::vector<ParsedStep>& steps) {
  ParsedFit fit;
  for (size_t i = 0; i < steps.size(); ++i) LaunchFit(steps[i], i, fit).Add();
  AddAnyStep(steps, fit);
  return fit;
}

absl::StatusOr<std::vector<ParamChoice>> ParamChoices(const ParsedSpec& parsed,
                                                      const Evaluation& evaluation,
                                                      const std::string& target) {
  constexpr size_t kMaxValues = 4096;
  std::vector<ParamChoice> choices;
  for (size_t i = 0; i < parsed.params.size(); ++i) {
    const std::string& name = parsed.spec.params[i].name;
    const auto choice = std::find_if(
        parsed.params[i].choices.begin(), parsed.params[i].choices.end(),
        [&](const ParsedParam::Choice& c) { return MatchesTarget(c.pattern, target); });
    ParamChoice result;
    ASSIGN_OR_RETURN(result.values, evaluation.List(name, choice->values));
    if (result.values.empty() || result.values.size() > kMaxValues) {
      return evaluation.Error(
          name, absl::StrCat("'", choice->values.text(), "' gives ", result.values.size(),
                             " values; 1 to ", kMaxValues, " will do"));
    }
    for (size_t j = 0; j < result.values.size(); ++j) {
      const std::string* text = std::get_if<std::string>(&result.values[j]);
      if (text != nullptr && !IsToken(*text)) {
        return evaluation.Error(name, absl::StrCat("'", *text, "' cannot be a macro: letters, ",
                                                   "digits and '_', at most ", kMaxParamText));
      }
    }
    if (const Value* twice = FindTwice(result.values); twice != nullptr) {
      return evaluation.Error(name, absl::StrCat("the value ", ToText(*twice), " is there twice"));
    }
    ASSIGN_OR_RETURN(const Value wanted, evaluation.Any(name, choice->default_value));
    const auto found = std::find_if(result.values.begin(), result.values.end(),
                                    [&](const Value& value) { return IsSame(value, wanted); });
    if (found == result.values.end()) {
      return evaluation.Error(
          name, absl::StrCat("the default, ", ToText(wanted), ", is not one of the values"));
    }
    result.default_value = *found;
    choices.push_back(std::move(result));
  }
  return choices;
}

absl::StatusOr<SpaceDefinition> DefineSpace(const ParsedSpec& parsed, const Problem& problem,
                                            const TargetTraits& traits) {
  const Evaluation evaluation(parsed, problem, traits);
  ASSIGN_OR_RETURN(const std::vector<ParamChoice> choices,
                   ParamChoices(parsed, evaluation, traits.target));
  SpaceDefinition definition;
  for (size_t i = 0; i < choices.size(); ++i) {
    definition.params.push_back({parsed.spec.params[i].name, choices[i].values});
  }
  definition.constants = evaluation.scope();
  for (const ParsedLet& let : parsed.lets) {
    if (definition.constants.Find(let.name) == nullptr) {
      definition.lets.push_back({let.name, let.value});
    }
  }
  for (const SpaceLet& let : parsed.fit.lets) definition.lets.push_back(let);
  for (const Limit limit : {Limit::kThreads, Limit::kSharedBytes, Limit::kClusterBlocks}) {
    definition.constants.Set(NameOf(limit), ValueOf(limit, traits));
  }
  definition.constraints = parsed.constraints;
  for (const ParsedFit::Constraint& one : parsed.fit.constraints) {
    std::string text = one.text;
    if (one.limit != Limit::kNone) {
      absl::StrAppend(&text, " <= ", ValueOf(one.limit, traits), "' (", traits.target, ")");
    }
    definition.constraints.push_back({one.expression, std::move(text)});
  }
  return definition;
}

absl::StatusOr<Config> UncheckedDefault(const ParsedSpec& parsed, const Problem& problem,
                                        const TargetTraits& traits) {
  const Evaluation evaluation(parsed, problem, traits);
  ASSIGN_OR_RETURN(const std::vector<ParamChoice> choices,
                   ParamChoices(parsed, evaluation, traits.target));
  Config config;
  for (size_t i = 0; i < choices.size(); ++i) {
    config.entries.emplace_back(parsed.spec.params[i].name, choices[i].default_value);
  }
  return config;
}

}  // namespace tune
