// SPDX-License-Identifier: Apache-2.0
// The space of a kernel: its params and constraints, and whether the launches fit the target.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tuner/kernel/evaluation.h"
#include "tuner/status_macros.h"

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

// Adds what a step's launch needs to be possible on a target, as lets (whose names no spec can
// take) and constraints over them. Of a step that a config leaves out nothing is needed.
class LaunchFit {
 public:
  LaunchFit(const ParsedStep& step, size_t index, const TargetTraits& traits,
            SpaceDefinition* definition)
      : step_(step),
        launch_(step.launch),
        prefix_(index == 0 ? "__" : absl::StrCat("__step", index, "_")),
        traits_(traits),
        definition_(*definition) {}

  void Add() {
    if (step_.when.has_value()) Let(Name("when"), *step_.when);
    AddAxes("grid", launch_.grid, {2147483647, 65535, 65535});
    AddAxes("block", launch_.block, {1024, 1024, 64});
    Require(ProductOf("block"), traits_.max_threads_per_block, "block: threads");
    if (!launch_.cluster.empty()) AddCluster();
    if (launch_.shared_bytes.has_value()) {
      Let(Name("shared_bytes"), *launch_.shared_bytes);
      Require("-" + Name("shared_bytes"), 0, "shared_bytes: minus bytes");
      Require(Name("shared_bytes"), traits_.max_shared_bytes, "shared_bytes: bytes");
    }
  }

 private:
  static Expression Parsed(const std::string& text) { return *Expression::Parse(text); }
  std::string Name(const std::string& name) const { return prefix_ + name; }
  std::string Axis(const char* name, size_t i) const {
    return absl::StrCat(prefix_, name, "_", i);
  }
  std::string ProductOf(const char* name) const {
    return absl::StrCat(Axis(name, 0), " * ", Axis(name, 1), " * ", Axis(name, 2));
  }

  void Let(const std::string& name, const Expression& expression) {
    definition_.lets.push_back({name, expression});
  }
  void Constrain(const std::string& expression, const std::string& text) {
    const std::string where = absl::StrCat("'", step_.field, ".", text);
    definition_.constraints.push_back(
        {Parsed(step_.when ? absl::StrCat("not ", Name("when"), " or (", expression, ")")
                           : expression),
         where});
  }
  void Require(const std::string& expression, int64_t most, const std::string& what) {
    Constrain(absl::StrCat(expression, " <= ", most),
              absl::StrCat(what, " <= ", most, "' (", traits_.target, ")"));
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
    const bool has_clusters = traits_.sm >= kFirstSmWithClusters;
    AddAxes("cluster", launch_.cluster, {kMaxClusterBlocks, kMaxClusterBlocks, kMaxClusterBlocks});
    Require(ProductOf("cluster"), has_clusters ? kMaxClusterBlocks : 1, "cluster: blocks");
    for (size_t i = 0; i < 3; ++i) {
      Constrain(absl::StrCat(Axis("grid", i), " % ", Axis("cluster", i), " == 0"),
                absl::StrCat("cluster[", i, "] divides ", step_.field, ".grid[", i, "]'"));
    }
  }

  const ParsedStep& step_;
  const ParsedLaunch& launch_;
  const std::string prefix_;
  const TargetTraits& traits_;
  SpaceDefinition& definition_;
};

// A config runs something.
void AddAnyStep(const std::vector<ParsedStep>& steps, SpaceDefinition& definition) {
  std::vector<std::string> conditions;
  for (const ParsedStep& step : steps) {
    if (!step.when.has_value()) return;
    conditions.push_back(absl::StrCat("(", step.when->text(), ")"));
  }
  definition.constraints.push_back({*Expression::Parse(absl::StrJoin(conditions, " or ")),
                                    "'steps: one of them runs'"});
}

}  // namespace

absl::StatusOr<std::vector<ParamChoice>> ParamChoices(const ParsedSpec& parsed,
                                                      const Evaluation& evaluation,
                                                      const std::string& target) {
  constexpr size_t kMaxValues = 4096;
  std::vector<ParamChoice> choices;
  for (size_t i = 0; i < parsed.params.size(); ++i) {
    const std::string& name = parsed.spec.params(static_cast<int>(i)).name();
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
    definition.params.push_back(
        {parsed.spec.params(static_cast<int>(i)).name(), choices[i].values});
  }
  definition.constants = evaluation.scope();
  for (const ParsedLet& let : parsed.lets) {
    if (definition.constants.Find(let.name) == nullptr) {
      definition.lets.push_back({let.name, let.value});
    }
  }
  for (size_t i = 0; i < parsed.constraints.size(); ++i) {
    const v1::Constraint& constraint = parsed.spec.constraints(static_cast<int>(i));
    const std::string why =
        constraint.doc().empty() ? "" : absl::StrCat(" (", constraint.doc(), ")");
    definition.constraints.push_back(
        {parsed.constraints[i], absl::StrCat("'", constraint.expression(), "'", why)});
  }
  for (size_t i = 0; i < parsed.steps.size(); ++i) {
    LaunchFit(parsed.steps[i], i, traits, &definition).Add();
  }
  AddAnyStep(parsed.steps, definition);
  return definition;
}

absl::StatusOr<Config> UncheckedDefault(const ParsedSpec& parsed, const Problem& problem,
                                        const TargetTraits& traits) {
  const Evaluation evaluation(parsed, problem, traits);
  ASSIGN_OR_RETURN(const std::vector<ParamChoice> choices,
                   ParamChoices(parsed, evaluation, traits.target));
  Config config;
  for (size_t i = 0; i < choices.size(); ++i) {
    config.entries.emplace_back(parsed.spec.params(static_cast<int>(i)).name(),
                                choices[i].default_value);
  }
  return config;
}

}  // namespace tune
