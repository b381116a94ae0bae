// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/config_rules.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/device_profile.h"

namespace tune::library {
namespace {

// Configs that are tried, if the default is not valid, before the search is given up.
constexpr int kTriesMax = 20000;

Scope ScopeOf(const SpaceDefinition& space, const Config& config) {
  Scope scope = space.constants;
  for (const auto& [name, value] : config.entries) scope.Set(name, value);
  for (const SpaceLet& let : space.lets) {
    // A let that cannot be evaluated is an error only if something uses it.
    absl::StatusOr<Value> value = let.expression.Evaluate(scope);
    if (value.ok()) scope.Set(let.name, *std::move(value));
  }
  return scope;
}

bool Holds(const SpaceConstraint& constraint, const Scope& scope) {
  const absl::StatusOr<bool> holds = constraint.expression.EvaluateBoolean(scope);
  return holds.ok() && *holds;
}

// Finds the first valid config in the order of params and values, defaults first.
class Search {
 public:
  Search(const SpaceDefinition& space, const Config& defaults)
      : space_(space), defaults_(defaults), due_(space.params.size() + 1) {
    for (const SpaceConstraint& constraint : space.constraints) {
      // Tried as soon as the last of its params has a value.
      const std::vector<std::string>& names = constraint.expression.names();
      due_[LastParam({names.begin(), names.end()})].push_back(&constraint);
    }
  }

  bool Extend(Config& config) {
    const size_t index = config.entries.size();
    const Scope scope = ScopeOf(space_, config);
    const auto& due = due_[index];
    if (--tries_ < 0 ||
        !std::all_of(due.begin(), due.end(), [&](const auto* one) { return Holds(*one, scope); })) {
      return false;
    }
    if (index == space_.params.size()) return true;
    const SpaceParam& param = space_.params[index];
    const Value& preferred = defaults_.entries[index].second;
    if (Try(config, param, preferred)) return true;
    return std::any_of(param.values.begin(), param.values.end(), [&](const Value& value) {
      return value != preferred && Try(config, param, value);
    });
  }

 private:
  // How many of the params, in their order, have what the names need, themselves or by lets.
  size_t LastParam(std::set<std::string> names) const {
    // A let may use those before it.
    for (auto let = space_.lets.rbegin(); let != space_.lets.rend(); ++let) {
      const std::vector<std::string>& used = let->expression.names();
      if (names.contains(let->name)) names.insert(used.begin(), used.end());
    }
    size_t last = 0;
    for (size_t i = 0; i < space_.params.size(); ++i) {
      if (names.contains(space_.params[i].name)) last = i + 1;
    }
    return last;
  }

  bool Try(Config& config, const SpaceParam& param, const Value& value) {
    config.entries.emplace_back(param.name, value);
    if (Extend(config)) return true;
    config.entries.pop_back();
    return false;
  }

  const SpaceDefinition& space_;
  const Config& defaults_;
  std::vector<std::vector<const SpaceConstraint*>> due_;
  int tries_ = kTriesMax;
};

}  // namespace

lookup::KernelPolicy SnapshotKernel::Policy() const {
  lookup::KernelPolicy policy{
      .kernel_name = spec.name, .kernel_hash = hash, .include_digest = include_digest};
  for (const DimSpec& dim : spec.dims) policy.dims[dim.name] = dim.match;
  return policy;
}

std::string SnapshotKernel::WhyNotOn(const std::string& target) const {
  if (!on_host && ProfileOfTarget(target).is_host) {
    return absl::StrCat("kernel '", spec.name, "' is written for GPUs and does not run on ",
                        target);
  }
  return std::string(CheckTarget(spec, target).message());
}

absl::StatusOr<Value> SnapshotKernel::Evaluate(const std::string& expression,
                                               const std::map<std::string, int64_t>& dims,
                                               const std::string& dtype,
                                               const TargetTraits& target) const {
  Scope scope;
  for (const auto& [name, value] : dims) scope.Set(name, value);
  const absl::StatusOr<DType> known = ParseDType(dtype);
  scope.Set("dtype", dtype);
  scope.Set("dtype_bytes", known.ok() ? SizeInBytes(*known) : int64_t{0});
  scope.Set("target", target.target);
  scope.Set("sm", int64_t{target.sm});
  scope.Set("sm_count", target.sm_count);
  for (const LetSpec& let : spec.lets) {
    const absl::StatusOr<Expression> parsed = Expression::Parse(let.value);
    if (!parsed.ok()) continue;
    absl::StatusOr<Value> value = parsed->Evaluate(scope);
    if (value.ok()) scope.Set(let.name, *std::move(value));
  }
  ASSIGN_OR_RETURN(const Expression parsed, Expression::Parse(expression));
  return parsed.Evaluate(scope);
}

std::vector<LaunchPlan> SnapshotKernel::Launches(const Problem& problem, const TargetTraits& target,
                                                 const Config& config) const {
  const auto has_block = [](const StepSpec& step) { return !step.launch->block.empty(); };
  if (!rules.ok() || !std::all_of(spec.steps.begin(), spec.steps.end(), has_block)) return {};
  return (*rules)->PlanLaunches(problem, target, config).value_or(std::vector<LaunchPlan>());
}

ConfigRules::ConfigRules(const SnapshotKernel& kernel, const Problem& problem,
                         const TargetTraits& target)
    : kernel_name_(kernel.spec.name),
      constraints_of_spec_(kernel.spec.constraints.size()),
      status_(Define(kernel, problem, target)) {}

absl::Status ConfigRules::Define(const SnapshotKernel& kernel, const Problem& problem,
                                 const TargetTraits& target) {
  RETURN_IF_ERROR(kernel.rules.status());
  ASSIGN_OR_RETURN(space_, (*kernel.rules)->DefineSpace(problem, target));
  ASSIGN_OR_RETURN(default_, (*kernel.rules)->Defaults(problem, target));
  return absl::OkStatus();
}

bool ConfigRules::IsValid(const Config& config) const {
  return status_.ok() && Kernel::CheckConfig(space_, config).ok();
}

ConfigRules::Safe ConfigRules::SafeConfig() const {
  if (!status_.ok()) {
    return {std::nullopt, absl::StrCat("the spec of ", kernel_name_,
                                       " cannot be read here: ", status_.message())};
  }
  const Scope scope = ScopeOf(space_, default_);
  const auto& constraints = space_.constraints;
  const auto broken = std::find_if(constraints.begin(), constraints.end(),
                                   [&](const auto& one) { return !Holds(one, scope); });
  if (broken == constraints.end()) return {default_, "the kernel's default"};
  const bool is_of_spec =
      broken - constraints.begin() < static_cast<ptrdiff_t>(constraints_of_spec_);
  const std::string what = absl::StrCat("the kernel's default breaks ",
                                        is_of_spec ? broken->text : "a limit of its launch");
  Config found;
  if (Search(space_, default_).Extend(found)) {
    return {found, absl::StrCat("some valid config, since ", what)};
  }
  return {std::nullopt, absl::StrCat(what, ", and no other config was found")};
}

}  // namespace tune::library
