// SPDX-License-Identifier: Apache-2.0
#include "tuner/kernel/spec_checker.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "tuner/compile_options.h"
#include "tuner/device_profile.h"
#include "tuner/expression/operators.h"
#include "tuner/problem.h"
#include "tuner/source/entry_name.h"

namespace tune {
namespace {

constexpr size_t kMaxNameLength = 64;

bool HasOnly(absl::string_view text, absl::string_view punctuation) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return absl::ascii_isalnum(c) || absl::StrContains(punctuation, absl::string_view(&c, 1));
  });
}

bool IsKernelName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameLength && absl::ascii_islower(name[0]) &&
         HasOnly(name, "_-") && absl::AsciiStrToLower(name) == name;
}

// Dims are flags of tunectl's commands, beside these. A test holds the list against the commands.
const std::set<std::string>& FlagNames() {
  static const auto* const kNames = new std::set<std::string>{
      "address",   "all",      "alpha",  "background", "base",     "baseline", "best",
      "budget",    "config",   "count",  "csv",        "default",  "delta0",   "detach",
      "device",    "devices",  "dtype",  "folder",     "fresh",    "head",     "help",
      "json",      "junit",    "kernel", "kernels",    "markdown", "max",      "prior",
      "replay",    "retune",   "rev",    "rounds",     "samples",  "seconds",  "seed",
      "set",       "strategy", "strict", "study",      "svg",      "sweep",    "target",
      "tolerance", "top",      "trial",  "verbose",    "version",  "warm"};
  return *kNames;
}

// Appends all texts that the author wrote in a part of a spec.
template <typename Part>
void AppendTexts(const Part& part, std::string& texts) {
  if constexpr (std::is_same_v<Part, std::string>) {
    absl::StrAppend(&texts, part, "\n");
  } else if constexpr (HasFields<Part>) {
    ForEachField(part, [&](const char*, const auto& field) { AppendTexts(field, texts); });
  } else if constexpr (requires { part.has_value(); }) {
    if (part.has_value()) AppendTexts(*part, texts);
  } else if constexpr (std::ranges::range<Part>) {
    for (const auto& one : part) AppendTexts(one, texts);
  }
}

// A plain name in one folder.
bool IsFileName(absl::string_view name) {
  return !name.empty() && name.size() <= 2 * kMaxNameLength && name[0] != '.' && name[0] != '-' &&
         HasOnly(name, "_-.+") && !absl::StrContains(name, "..");
}

}  // namespace

bool IsIdentifier(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameLength && HasOnly(name, "_") &&
         !absl::ascii_isdigit(name[0]) && !absl::StartsWith(name, "__");
}

absl::Status SpecChecker::Check() {
  RETURN_IF_ERROR(CheckCounts());
  RETURN_IF_ERROR(CheckHead());
  RETURN_IF_ERROR(CheckFiles());
  RETURN_IF_ERROR(CheckDims());
  RETURN_IF_ERROR(CheckDTypes());
  FindLetsOfProblems();
  RETURN_IF_ERROR(CheckParams());
  RETURN_IF_ERROR(CheckLets());
  RETURN_IF_ERROR(CheckConstraints());
  RETURN_IF_ERROR(CheckDefines());
  RETURN_IF_ERROR(CheckOptions());
  RETURN_IF_ERROR(CheckIncludeRoots());
  RETURN_IF_ERROR(CheckArgs());
  RETURN_IF_ERROR(CheckSteps());
  RETURN_IF_ERROR(CheckWork());
  RETURN_IF_ERROR(CheckReference());
  RETURN_IF_ERROR(CheckChecker());
  RETURN_IF_ERROR(CheckParamsAreUsed());
  return CheckTolerances();
}

absl::Status SpecChecker::CheckCounts() const {
  const struct {
    const char* field;
    size_t count;
    int most;
  } kLimits[] = {
      {"headers", spec_.headers.size(), 255},
      {"dims", spec_.dims.size(), 32},
      {"dtypes", spec_.dtypes.size(), 16},
      {"params", spec_.params.size(), 32},
      {"lets", spec_.lets.size(), 128},
      {"constraints", spec_.constraints.size(), 128},
      {"defines", spec_.defines.size(), 64},
      {"args", spec_.args.size(), 64},
      {"tolerances", spec_.tolerances.size(), 16},
      {"targets", spec_.targets.size(), 32},
      {"nvrtc_options", spec_.nvrtc_options.size(), 16},
      {"steps", spec_.steps.size(), 16},
      {"include_roots", spec_.include_roots.size(), 8},
  };
  for (const auto& limit : kLimits) {
    if (limit.count <= static_cast<size_t>(limit.most)) continue;
    return root_.Error(limit.field, limit.most,
                       absl::StrCat("one too many; the most is ", limit.most));
  }
  return absl::OkStatus();
}

absl::Status SpecChecker::CheckHead() const {
  if (!IsKernelName(spec_.name)) {
    return root_.Error("name", absl::StrCat("'", spec_.name, "' is no kernel name: a lower case ",
                                            "letter, then lower case letters, digits, '_' and '-', "
                                            "at most 64"));
  }
  if (spec_.language != Language{}) parsed_.language = spec_.language;
  if (TraitsOf(parsed_.language).runs_on_host) {
    return root_.Error("language",
                       absl::StrCat("only a reference can be in ", ToText(parsed_.language)));
  }
  for (int i = 0; i < std::ssize(spec_.targets); ++i) {
    RETURN_IF_ERROR(CheckPattern(root_, "targets", i, spec_.targets[i]));
  }
  return absl::OkStatus();
}

absl::Status SpecChecker::CheckFile(const SpecPlace& place, const char* field, int index,
                                    const std::string& name, Language language) {
  if (!IsFileName(name)) {
    return place.Error(field, index,
                       absl::StrCat("'", name, "' is no file name: letters, digits, '_', '-', '+' ",
                                    "and '.', no folder"));
  }
  const auto file = files_.find(name);
  if (file == files_.end()) {
    return place.Error(field, index, absl::StrCat("file '", name, "' was not given"));
  }
  if (const size_t nul = file->second.find('\0');
      nul != std::string::npos && TraitsOf(language).is_text) {
    const auto end = file->second.begin() + static_cast<ptrdiff_t>(nul);
    const auto lines = std::count(file->second.begin(), end, '\n');
    return place.Error(
        field, index,
        absl::StrCat("file '", name, "' is not text: line ", lines + 1, " has a NUL byte"));
  }
  if (!parsed_.files.insert(*file).second) {
    return place.Error(field, index, absl::StrCat("file '", name, "' is named twice"));
  }
  return absl::OkStatus();
}

absl::Status SpecChecker::CheckFiles() {
  RETURN_IF_ERROR(CheckFile(root_, "source", -1, spec_.source, parsed_.language));
  for (int i = 0; i < std::ssize(spec_.headers); ++i) {
    RETURN_IF_ERROR(CheckFile(root_, "headers", i, spec_.headers[i], parsed_.language));
  }
  return absl::OkStatus();
}

absl::Status SpecChecker::TakeName(const SpecPlace& place, const std::string& name) {
  static const Names* const kOurs = new Names{"dtype", "dtype_bytes", "target", "sm", "sm_count"};
  if (!IsIdentifier(name)) {
    return place.Error("name", absl::StrCat("'", name, "' is no name: a letter, then letters, ",
                                            "digits and '_', at most 64, not starting with '__'"));
  }
  if (IsReservedName(name) || kOurs->count(name) > 0) {
    return place.Error("name", absl::StrCat("'", name, "' already means something in expressions"));
  }
  if (!taken_.insert(name).second) {
    return place.Error("name", absl::StrCat("the name '", name, "' is taken twice"));
  }
  return absl::OkStatus();
}

absl::Status SpecChecker::TakeMacro(const SpecPlace& place, const std::string& name) {
  if (!IsIdentifier(name)) {
    return place.Error("name", absl::StrCat("'", name, "' is no macro name"));
  }
  if (name == "DTYPE" || absl::StartsWith(name, "DTYPE_") || absl::StartsWith(name, "TUNE_")) {
    return place.Error(
        "name", absl::StrCat("macro '", name, "' is one of ours: DTYPE, DTYPE_*, ", "TUNE_*"));
  }
  if (!macros_.insert(name).second) {
    return place.Error("name", absl::StrCat("macro '", name, "' is defined twice"));
  }
  return absl::OkStatus();
}

absl::Status SpecChecker::CheckPattern(const SpecPlace& place, const char* field, int index,
                                       const std::string& pattern) const {
  if (!pattern.empty() && pattern.size() <= kMaxNameLength && HasOnly(pattern, "_*")) {
    return absl::OkStatus();
  }
  return place.Error(
      field, index,
      absl::StrCat("'", pattern, "' is no target pattern such as ", "'cpu', 'sm_*', 'sm_90a'"));
}

absl::StatusOr<Expression> SpecChecker::Parse(const SpecPlace& place, const char* field, int index,
                                              const std::string& text,
                                              const Names& in_scope) const {
  if (text.empty()) return place.Error(field, index, "an expression is needed");
  absl::StatusOr<Expression> expression = Expression::Parse(text);
  if (!expression.ok()) return place.Error(field, index, expression.status().message());
  const absl::Status names = expression->CheckNames(in_scope);
  if (names.ok()) return expression;
  std::string why(names.message());
  for (const LetSpec& let : spec_.lets) {
    const auto& used = expression->names();
    if (in_scope.count(let.name) > 0) continue;
    if (std::find(used.begin(), used.end(), let.name) == used.end()) continue;
    absl::StrAppend(&why, "; let '", let.name, "' needs a param, comes later or is wrong");
    break;
  }
  return place.Error(field, index, why);
}

absl::Status SpecChecker::CheckDims() {
  for (int i = 0; i < std::ssize(spec_.dims); ++i) {
    const SpecPlace place = root_.Nested("dims", i);
    const std::string& name = spec_.dims[i].name;
    RETURN_IF_ERROR(TakeName(place, name));
    if (FlagNames().count(name) > 0) {
      return place.Error(
          "name", absl::StrCat("'", name, "' is a flag of tunectl, where dims are flags too; give ",
                               "the dim another name than ", absl::StrJoin(FlagNames(), ", ")));
    }
    RETURN_IF_ERROR(CheckDim(spec_.dims[i], place));
    RETURN_IF_ERROR(CheckDefaultDim(i, place));
  }
  problem_names_ = taken_;
  problem_names_.insert({"dtype", "dtype_bytes", "target", "sm"});
  config_names_ = problem_names_;
  return absl::OkStatus();
}

absl::Status SpecChecker::CheckDefaultDim(int index, const SpecPlace& place) const {
  const DimSpec& dim = spec_.dims[index];
  if (dim.optional && (!dim.on.empty() || !dim.default_dim.empty())) {
    return place.Error("optional", "a dim that a call may leave out has one default everywhere");
  }
  if (dim.default_dim.empty()) return absl::OkStatus();
  if (dim.default_value != 0 || !dim.on.empty()) {
    return place.Error("default_dim", "a dim that takes it has no default_value and no on");
  }
  const auto end = spec_.dims.begin() + index;
  const auto has_name = [&](const DimSpec& other) { return other.name == dim.default_dim; };
  if (std::find_if(spec_.dims.begin(), end, has_name) != end) return absl::OkStatus();
  return place.Error("default_dim", absl::StrCat("no dim before '", dim.name, "' is called '",
                                                 dim.default_dim, "'"));
}

absl::Status SpecChecker::CheckDim(const DimSpec& dim, const SpecPlace& place) const {
  const int64_t max = MaxOf(dim);
  if (dim.min < -kDimMax) return place.Error("min", "below -2^40");
  if (max > kDimMax) return place.Error("max", "above 2^40");
  if (dim.min > max) {
    return place.Error("min", absl::StrCat(dim.min, " is above the maximum, ", max));
  }
  if (dim.values.size() > 256) return place.Error("values", 256, "one too many; the most is 256");
  auto check = [&](const SpecPlace& at, const char* field, int index, int64_t value) {
    if (value < dim.min || value > max) {
      return at.Error(field, index, absl::StrCat(value, " is not within ", dim.min, " and ", max));
    }
    if (!dim.values.empty() &&
        std::find(dim.values.begin(), dim.values.end(), value) == dim.values.end()) {
      return at.Error(field, index, absl::StrCat(value, " is not one of the values"));
    }
    return absl::OkStatus();
  };
  for (int i = 0; i < std::ssize(dim.values); ++i) {
    RETURN_IF_ERROR(check(place, "values", i, dim.values[i]));
  }
  if (dim.default_dim.empty()) {
    RETURN_IF_ERROR(check(place, "default_value", -1, dim.default_value));
  }
  if (dim.on.size() > 32) return place.Error("on", 32, "one too many; the most is 32");
  for (int i = 0; i < std::ssize(dim.on); ++i) {
    const SpecPlace on = place.Nested("on", i);
    RETURN_IF_ERROR(CheckPattern(on, "target", -1, dim.on[i].target));
    RETURN_IF_ERROR(check(on, "default_value", -1, dim.on[i].default_value));
  }
  return absl::OkStatus();
}

absl::Status SpecChecker::CheckDTypes() const {
  if (spec_.dtypes.empty()) return root_.Error("dtypes", "name at least one, such as 'f32'");
  Names seen;
  for (int i = 0; i < std::ssize(spec_.dtypes); ++i) {
    const absl::StatusOr<DType> dtype = ParseDType(spec_.dtypes[i]);
    if (!dtype.ok()) return root_.Error("dtypes", i, dtype.status().message());
    if (!seen.insert(spec_.dtypes[i]).second) {
      return root_.Error("dtypes", i, absl::StrCat("'", spec_.dtypes[i], "' is there twice"));
    }
  }
  return absl::OkStatus();
}

// Lets that need no config are known before it, so params may use them. What is wrong with a let is
// told later.
void SpecChecker::FindLetsOfProblems() {
  for (const LetSpec& let : spec_.lets) {
    const absl::StatusOr<Expression> value = Expression::Parse(let.value);
    if (value.ok() && value->CheckNames(problem_names_).ok()) problem_names_.insert(let.name);
  }
}

absl::Status SpecChecker::CheckParams() {
  for (int i = 0; i < std::ssize(spec_.params); ++i) {
    RETURN_IF_ERROR(CheckParam(spec_.params[i], root_.Nested("params", i)));
  }
  config_names_.insert(taken_.begin(), taken_.end());
  return absl::OkStatus();
}

absl::Status SpecChecker::CheckParam(const ParamSpec& param, const SpecPlace& place) {
  RETURN_IF_ERROR(TakeName(place, param.name));
  RETURN_IF_ERROR(TakeMacro(place, param.name));
  ASSIGN_OR_RETURN(const Expression values,
                   Parse(place, "values", -1, param.values, problem_names_));
  ASSIGN_OR_RETURN(const Expression default_value,
                   Parse(place, "default_value", -1, param.default_value, problem_names_));
  ParsedParam parsed;
  if (param.on.size() > 32) return place.Error("on", 32, "one too many; the most is 32");
  for (int i = 0; i < std::ssize(param.on); ++i) {
    const SpecPlace on = place.Nested("on", i);
    RETURN_IF_ERROR(CheckPattern(on, "target", -1, param.on[i].target));
    ParsedParam::Choice choice = {param.on[i].target, values, default_value};
    if (!param.on[i].values.empty()) {
      ASSIGN_OR_RETURN(choice.values, Parse(on, "values", -1, param.on[i].values, problem_names_));
    }
    if (!param.on[i].default_value.empty()) {
      ASSIGN_OR_RETURN(choice.default_value,
                       Parse(on, "default_value", -1, param.on[i].default_value, problem_names_));
    }
    parsed.choices.push_back(std::move(choice));
  }
  parsed.choices.push_back({"*", values, default_value});
  parsed_.params.push_back(std::move(parsed));
  return absl::OkStatus();
}

// A constant that no function takes is left out without a word: every value of it is one kernel.
absl::Status SpecChecker::CheckParamsAreUsed() const {
  const LanguageTraits& language = TraitsOf(parsed_.language);
  if (!language.has_constants) return absl::OkStatus();
  KernelSpec rest = spec_;
  for (ParamSpec& param : rest.params) param.name = param.doc = "";
  std::string text;
  AppendTexts(rest, text);
  for (int i = 0; i < std::ssize(spec_.params); ++i) {
    const std::string& name = spec_.params[i].name;
    const auto is_it = [&](const auto& option) { return option.first == name; };
    if (std::any_of(language.options.begin(), language.options.end(), is_it)) continue;
    if (IsMentioned(name) || HasWord(text, name)) continue;
    const std::string options = absl::StrJoin(
        language.options, ", ",
        [](std::string* out, const auto& option) { absl::StrAppend(out, option.first); });
    return root_.Nested("params", i)
        .Error("name",
               absl::StrCat("nothing has a '", name, "': no file, no expression; nor is it an ",
                            "option of ", language.name, ": ", options));
  }
  return absl::OkStatus();
}

absl::Status SpecChecker::CheckLets() {
  for (int i = 0; i < std::ssize(spec_.lets); ++i) {
    const LetSpec& let = spec_.lets[i];
    const SpecPlace place = root_.Nested("lets", i);
    RETURN_IF_ERROR(TakeName(place, let.name));
    ASSIGN_OR_RETURN(Expression value, Parse(place, "value", -1, let.value, config_names_));
    const bool uses_params = problem_names_.count(let.name) == 0;
    config_names_.insert(let.name);
    parsed_.lets.push_back({let.name, std::move(value), uses_params});
  }
  return absl::OkStatus();
}

absl::Status SpecChecker::CheckConstraints() {
  for (int i = 0; i < std::ssize(spec_.constraints); ++i) {
    const ConstraintSpec& constraint = spec_.constraints[i];
    const SpecPlace place = root_.Nested("constraints", i);
    // `tunectl import` marks a condition that it could not read in this way.
    if (constraint.expression == "left_to_write") {
      return place.Error("expression",
                         absl::StrCat("unknown name 'left_to_write'; left to write: ",
                                      constraint.doc, ". Delete the line once it is done"));
    }
    ASSIGN_OR_RETURN(Expression expression,
                     Parse(place, "expression", -1, constraint.expression, config_names_));
    const std::string why = constraint.doc.empty() ? "" : absl::StrCat(" (", constraint.doc, ")");
    parsed_.constraints.push_back(
        {std::move(expression), absl::StrCat("'", constraint.expression, "'", why)});
  }
  return absl::OkStatus();
}

absl::Status SpecChecker::CheckDefines() {
  const LanguageTraits& language = TraitsOf(parsed_.language);
  if (!language.has_macros && !language.has_constants && !spec_.defines.empty()) {
    return root_.Nested("defines", 0)
        .Error("name", absl::StrCat(language.name, " has no macros: let launch expressions and ",
                                    "source_choice use the value"));
  }
  for (int i = 0; i < std::ssize(spec_.defines); ++i) {
    const SpecPlace place = root_.Nested("defines", i);
    RETURN_IF_ERROR(TakeMacro(place, spec_.defines[i].name));
    ASSIGN_OR_RETURN(Expression value,
                     Parse(place, "value", -1, spec_.defines[i].value, config_names_));
    parsed_.defines.push_back(std::move(value));
  }
  return absl::OkStatus();
}

absl::Status SpecChecker::CheckOptions() const {
  const LanguageTraits& language = TraitsOf(parsed_.language);
  if (!language.has_macros && !spec_.nvrtc_options.empty()) {
    return root_.Error("nvrtc_options", 0,
                       absl::StrCat(language.name, " is compiled without options of NVRTC"));
  }
  for (int i = 0; i < std::ssize(spec_.nvrtc_options); ++i) {
    const std::string& gpu_target = DeviceProfiles().front()->common_targets.front();
    const std::string why = WhyNotAllowedOption(spec_.nvrtc_options[i], gpu_target);
    if (!why.empty()) return root_.Error("nvrtc_options", i, why);
  }
  return absl::OkStatus();
}

absl::Status SpecChecker::CheckIncludeRoots() const {
  const LanguageTraits& language = TraitsOf(parsed_.language);
  for (int i = 0; i < std::ssize(spec_.include_roots); ++i) {
    if (!language.has_macros) {
      return root_.Error("include_roots", i, absl::StrCat(language.name, " includes nothing"));
    }
    if (IsKernelName(spec_.include_roots[i])) continue;
    return root_.Error("include_roots", i,
                       absl::StrCat("'", spec_.include_roots[i], "' is no name: it is the NAME of ",
                                    "an operator's --include-root NAME=DIR"));
  }
  return absl::OkStatus();
}

}  // namespace tune
