// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/kernel_rules.h"

#include <algorithm>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "tuner/expression/expression.h"
#include "tuner/kernel/kernel.h"
#include "tuner/spelling.h"

namespace tune::library {
namespace {

// Configs that are looked at, where the default is not valid, before that is given up.
constexpr int kSoughtMax = 20000;
constexpr int64_t kGridMax[] = {2147483647, 65535, 65535};
constexpr int64_t kBlockMax[] = {1024, 1024, 64};
constexpr int64_t kClusterMax = 16;
constexpr int kFirstSmWithClusters = 90;

int64_t DefaultOf(const KernelRules::Dim& dim, const Target& target) {
  for (const auto& [pattern, value] : dim.on) {
    if (MatchesTarget(pattern, target.name)) return value;
  }
  return dim.default_value;
}

absl::Status CheckDim(const KernelRules::Dim& dim, int64_t value) {
  if (!dim.values.empty() &&
      std::find(dim.values.begin(), dim.values.end(), value) == dim.values.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "dim '", dim.name, "' is one of ", absl::StrJoin(dim.values, ", "), ", not ", value));
  }
  if (value < dim.min || value > dim.max) {
    return absl::InvalidArgumentError(
        absl::StrCat("dim '", dim.name, "' goes from ", dim.min, " to ", dim.max, ", not ", value));
  }
  return absl::OkStatus();
}

std::string NamesOf(const std::vector<KernelRules::Dim>& dims) {
  return absl::StrJoin(
      dims, ", ", [](std::string* out, const KernelRules::Dim& dim) { out->append(dim.name); });
}

// 1 and 1.0 are the same value of a list, True and 1 are not.
bool IsSame(const Value& left, const Value& right) {
  const auto number = [](const Value& value) {
    const int64_t* integer = std::get_if<int64_t>(&value);
    return integer != nullptr ? static_cast<double>(*integer) : std::get<double>(value);
  };
  const auto is_number = [](const Value& value) {
    return std::holds_alternative<int64_t>(value) || std::holds_alternative<double>(value);
  };
  const bool mixed = left.index() != right.index() && is_number(left) && is_number(right);
  return mixed ? number(left) == number(right) : left == right;
}

// Something that holds for every valid config.
struct Rule {
  std::string text;  // what a config breaks that it does not hold for
  Expression condition;
  std::optional<Expression> when;  // only where this is true

  bool Holds(const Scope& scope) const {
    if (when.has_value()) {
      const absl::StatusOr<bool> applies = when->EvaluateBoolean(scope);
      if (!applies.ok() || !*applies) return applies.ok();
    }
    const absl::StatusOr<bool> holds = condition.EvaluateBoolean(scope);
    return holds.ok() && *holds;
  }
  std::set<std::string> Names() const {
    std::set<std::string> names(condition.names().begin(), condition.names().end());
    if (when.has_value()) names.insert(when->names().begin(), when->names().end());
    return names;
  }
};

struct ParamValues {
  std::string name;
  std::vector<Value> values;
  Value default_value;
};

// Collects the rules of a kernel. What a launch needs is as in tuner/kernel/config_space.cc.
class RuleList {
 public:
  absl::Status Add(const std::string& condition,
                   const std::optional<Expression>& when = std::nullopt,
                   const std::string& text = "a limit of its launch") {
    ASSIGN_OR_RETURN(Expression parsed, Expression::Parse(condition));
    rules_.push_back({text, std::move(parsed), when});
    return absl::OkStatus();
  }
  absl::Status AddConstraint(const std::string& text) {
    return Add(text, std::nullopt, absl::StrCat("'", text, "'"));
  }

  absl::Status AddLaunch(const KernelRules::Step& step, const Target& target) {
    std::optional<Expression> when;
    if (!step.when.empty()) {
      ASSIGN_OR_RETURN(when, Expression::Parse(step.when));
    }
    RETURN_IF_ERROR(AddAxes(step.grid, kGridMax, when));
    RETURN_IF_ERROR(AddAxes(step.block, kBlockMax, when));
    if (!step.block.empty()) {  // else a compiler of another language chooses it
      const std::string fits =
          absl::StrCat(ProductOf(step.block), " <= ", target.max_threads_per_block);
      RETURN_IF_ERROR(Add(fits, when));
    }
    if (!step.shared_bytes.empty()) {
      RETURN_IF_ERROR(
          Add(absl::StrCat("0 <= (", step.shared_bytes, ") <= ", target.max_shared_bytes), when));
    }
    return step.cluster.empty() ? absl::OkStatus() : AddCluster(step, target, when);
  }

  std::vector<Rule> Take() { return std::move(rules_); }

 private:
  static std::string ProductOf(const std::vector<std::string>& axes) {
    return absl::StrJoin(axes, " * ", [](std::string* out, const std::string& axis) {
      absl::StrAppend(out, "(", axis, ")");
    });
  }

  template <size_t kAxes>
  absl::Status AddAxes(const std::vector<std::string>& axes, const int64_t (&most)[kAxes],
                       const std::optional<Expression>& when) {
    for (size_t i = 0; i < std::min(axes.size(), kAxes); ++i) {
      RETURN_IF_ERROR(
          Add(absl::StrCat("1 <= (", axes[i], ") <= ", most[i], " and (", axes[i], ") % 1 == 0"),
              when));
    }
    return absl::OkStatus();
  }

  absl::Status AddCluster(const KernelRules::Step& step, const Target& target,
                          const std::optional<Expression>& when) {
    const int64_t axis_max[] = {kClusterMax, kClusterMax, kClusterMax};
    const int64_t most = target.sm >= kFirstSmWithClusters ? kClusterMax : 1;
    RETURN_IF_ERROR(AddAxes(step.cluster, axis_max, when));
    RETURN_IF_ERROR(Add(absl::StrCat(ProductOf(step.cluster), " <= ", most), when));
    for (size_t i = 0; i < step.cluster.size(); ++i) {
      const std::string extent = i < step.grid.size() ? step.grid[i] : "1";
      RETURN_IF_ERROR(Add(absl::StrCat("(", extent, ") % (", step.cluster[i], ") == 0"), when));
    }
    return absl::OkStatus();
  }

  std::vector<Rule> rules_;
};

// What expressions may name of a problem on a target.
Scope ScopeOf(const Problem& problem, const Target& target) {
  Scope scope;
  for (const auto& [name, value] : problem.dims) scope.Set(name, value);
  scope.Set("dtype", ToText(problem.dtype));
  scope.Set("dtype_bytes", SizeInBytes(problem.dtype));
  scope.Set("target", target.name);
  scope.Set("sm", target.sm);
  scope.Set("sm_count", target.sm_count);
  return scope;
}

}  // namespace

lookup::KernelPolicy KernelRules::Policy() const {
  lookup::KernelPolicy policy{
      .kernel_name = name, .kernel_hash = hash, .include_digest = include_digest};
  for (const Dim& dim : dims) policy.dims[dim.name] = dim.match;
  return policy;
}

std::string KernelRules::WhyNotOn(const Target& target) const {
  if (target.is_host && !on_host) {
    return absl::StrCat("kernel '", name, "' is written for GPUs and does not run on ",
                        target.name);
  }
  const auto fits = [&](const std::string& pattern) { return MatchesTarget(pattern, target.name); };
  if (targets.empty() || std::any_of(targets.begin(), targets.end(), fits)) return "";
  return absl::StrCat("kernel '", name, "' runs on ", absl::StrJoin(targets, ", "), ", not on ",
                      target.name);
}

absl::StatusOr<Problem> KernelRules::MakeProblem(const std::map<std::string, int64_t>& given,
                                                 const std::string& dtype,
                                                 const Target& target) const {
  const std::string wanted = dtype.empty() && !dtypes.empty() ? dtypes.front() : SpecDType(dtype);
  if (std::find(dtypes.begin(), dtypes.end(), wanted) == dtypes.end()) {
    return absl::InvalidArgumentError(absl::StrCat("kernel '", name, "' is not written for '",
                                                   wanted, "'; it takes ",
                                                   absl::StrJoin(dtypes, ", ")));
  }
  for (const auto& [dim_name, value] : given) {
    const auto is_it = [&, &wanted_name = dim_name](const Dim& dim) {
      return dim.name == wanted_name;
    };
    if (std::none_of(dims.begin(), dims.end(), is_it)) {
      return absl::InvalidArgumentError(absl::StrCat("kernel '", name, "' has no dim '", dim_name,
                                                     "'; its dims are ", NamesOf(dims)));
    }
  }
  Problem problem;
  ASSIGN_OR_RETURN(problem.dtype, ParseDType(wanted));
  for (const Dim& dim : dims) {
    const auto found = given.find(dim.name);
    const int64_t value = found != given.end() ? found->second : DefaultOf(dim, target);
    RETURN_IF_ERROR(CheckDim(dim, value));
    problem.dims.emplace_back(dim.name, value);
  }
  return problem;
}

LaunchSizes KernelRules::Launches(const Problem& problem, const Target& target) const {
  std::vector<LaunchText> texts;
  for (const Step& step : steps) {
    texts.push_back({step.when, step.grid, step.block, step.shared_bytes});
  }
  return LaunchSizes(std::make_shared<LaunchForm>(lets, texts), ScopeOf(problem, target));
}

struct ConfigRules::Space {
  std::vector<std::pair<std::string, Expression>> lets;
  std::vector<ParamValues> params;
  std::vector<Rule> rules;
  Scope constants;

  Scope ScopeOf(const Config& config) const {
    Scope scope = constants;
    for (const auto& [name, value] : config.entries) scope.Set(name, value);
    for (const auto& [name, expression] : lets) {
      // One that cannot be evaluated is an error only where it is used.
      absl::StatusOr<Value> value = expression.Evaluate(scope);
      if (value.ok()) scope.Set(name, *std::move(value));
    }
    return scope;
  }
};

ConfigRules::ConfigRules(const KernelRules& kernel, const Problem& problem, const Target& target)
    : kernel_(kernel),
      problem_(problem),
      target_(target),
      space_(std::make_unique<Space>()),
      status_(Build()) {}
ConfigRules::~ConfigRules() = default;

absl::Status ConfigRules::Build() {
  space_->constants = ScopeOf(problem_, target_);
  for (const auto& [name, text] : kernel_.lets) {
    ASSIGN_OR_RETURN(Expression parsed, Expression::Parse(text));
    space_->lets.emplace_back(name, std::move(parsed));
  }
  const Scope known = space_->ScopeOf({});
  for (const KernelRules::Param& param : kernel_.params) {
    const auto choice =
        std::find_if(param.choices.begin(), param.choices.end(),
                     [&](const auto& one) { return MatchesTarget(one.target, target_.name); });
    if (choice == param.choices.end()) {
      return absl::InvalidArgumentError(absl::StrCat("it has no values of ", param.name));
    }
    ASSIGN_OR_RETURN(const Expression list, Expression::Parse(choice->values));
    ASSIGN_OR_RETURN(const Expression wanted_text, Expression::Parse(choice->default_value));
    ASSIGN_OR_RETURN(const std::vector<Value> values, list.EvaluateList(known));
    ASSIGN_OR_RETURN(const Value wanted, wanted_text.Evaluate(known));
    const auto value = std::find_if(values.begin(), values.end(),
                                    [&](const Value& one) { return IsSame(one, wanted); });
    if (value == values.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the default of ", param.name, " is not one of its values"));
    }
    space_->params.push_back({param.name, values, *value});
  }
  RuleList rules;
  bool always = false;
  std::vector<std::string> whens;
  for (const std::string& text : kernel_.constraints) RETURN_IF_ERROR(rules.AddConstraint(text));
  for (const KernelRules::Step& step : kernel_.steps) {
    RETURN_IF_ERROR(rules.AddLaunch(step, target_));
    always = always || step.when.empty();
    whens.push_back(absl::StrCat("(", step.when, ")"));
  }
  if (!always) {
    RETURN_IF_ERROR(rules.Add(absl::StrJoin(whens, " or ")));
  }
  space_->rules = rules.Take();
  return absl::OkStatus();
}

bool ConfigRules::IsValid(const Config& config) const {
  if (!status_.ok() || config.entries.size() != space_->params.size()) return false;
  for (size_t i = 0; i < config.entries.size(); ++i) {
    const auto& [name, value] = config.entries[i];
    const ParamValues& param = space_->params[i];
    if (name != param.name ||
        std::find(param.values.begin(), param.values.end(), value) == param.values.end()) {
      return false;
    }
  }
  const Scope scope = space_->ScopeOf(config);
  return std::all_of(space_->rules.begin(), space_->rules.end(),
                     [&](const Rule& rule) { return rule.Holds(scope); });
}

// Finds the first valid config in the order of params and values, defaults first.
struct ConfigRules::Seeker {
  explicit Seeker(const Space& space) : space(space), due(space.params.size() + 1) {
    for (const Rule& rule : space.rules) {
      // Tried as soon as the last of its params has a value.
      due[LastParam(rule.Names())].push_back(&rule);
    }
  }

  // How many of the params, in their order, have what the names need, themselves or by lets.
  size_t LastParam(std::set<std::string> names) const {
    // A let may use those before it.
    for (auto let = space.lets.rbegin(); let != space.lets.rend(); ++let) {
      const std::vector<std::string>& used = let->second.names();
      if (names.contains(let->first)) names.insert(used.begin(), used.end());
    }
    size_t last = 0;
    for (size_t i = 0; i < space.params.size(); ++i) {
      if (names.contains(space.params[i].name)) last = i + 1;
    }
    return last;
  }

  bool Extend(Config& config) {
    const Scope scope = space.ScopeOf(config);
    const auto& rules = due[config.entries.size()];
    if (--tries < 0 || !std::all_of(rules.begin(), rules.end(),
                                    [&](const Rule* rule) { return rule->Holds(scope); })) {
      return false;
    }
    if (config.entries.size() == space.params.size()) return true;
    const ParamValues& param = space.params[config.entries.size()];
    if (Try(config, param, param.default_value)) return true;
    for (const Value& value : param.values) {
      if (value != param.default_value && Try(config, param, value)) return true;
    }
    return false;
  }

  bool Try(Config& config, const ParamValues& param, const Value& value) {
    config.entries.emplace_back(param.name, value);
    if (Extend(config)) return true;
    config.entries.pop_back();
    return false;
  }

  const Space& space;
  std::vector<std::vector<const Rule*>> due;
  int tries = kSoughtMax;
};

ConfigRules::Safe ConfigRules::SafeConfig() const {
  if (!status_.ok()) {
    return {std::nullopt, absl::StrCat("the spec of ", kernel_.name,
                                       " cannot be read here: ", status_.message())};
  }
  Config config;
  for (const ParamValues& param : space_->params) {
    config.entries.emplace_back(param.name, param.default_value);
  }
  const Scope scope = space_->ScopeOf(config);
  const auto broken = std::find_if(space_->rules.begin(), space_->rules.end(),
                                   [&](const Rule& rule) { return !rule.Holds(scope); });
  if (broken == space_->rules.end()) return {config, "the kernel's default"};
  Config found;
  if (Seeker(*space_).Extend(found)) {
    return {found,
            absl::StrCat("some valid config, since the kernel's default breaks ", broken->text)};
  }
  return {std::nullopt, absl::StrCat("the kernel's default breaks ", broken->text,
                                     ", and no other config was found")};
}

}  // namespace tune::library
