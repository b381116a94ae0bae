// SPDX-License-Identifier: Apache-2.0
#include "tuner/kernel/kernel.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/spec_dtype.h"
#include "base/status_macros.h"
#include "tuner/device_profile.h"
#include "tuner/kernel/evaluation.h"
#include "tuner/kernel/parsed_spec.h"

namespace tune {
namespace {

// The dims before it have their values in `problem`.
int64_t DefaultOf(const DimSpec& dim, const std::string& target, const Problem& problem) {
  for (const auto& [name, value] : problem.dims) {
    if (name == dim.default_dim) return value;
  }
  for (const DimOnTarget& on : dim.on) {
    if (MatchesTarget(on.target, target)) return on.default_value;
  }
  return dim.default_value;
}

absl::Status CheckDim(const DimSpec& dim, int64_t value) {
  const int64_t max = MaxOf(dim);
  if (!dim.values.empty() &&
      std::find(dim.values.begin(), dim.values.end(), value) == dim.values.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "dim '", dim.name, "' is one of ", absl::StrJoin(dim.values, ", "), ", not ", value));
  }
  if (value < dim.min || value > max) {
    return absl::InvalidArgumentError(
        absl::StrCat("dim '", dim.name, "' goes from ", dim.min, " to ", max, ", not ", value));
  }
  return absl::OkStatus();
}

// A value of its list for each param, in their order.
absl::Status CheckValues(const SpaceDefinition& definition, const Config& config) {
  if (config.entries.size() != definition.params.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", config.entries.size(), " params, not ", definition.params.size()));
  }
  for (size_t i = 0; i < definition.params.size(); ++i) {
    const SpaceParam& param = definition.params[i];
    const auto& [name, value] = config.entries[i];
    if (name != param.name) {
      return absl::InvalidArgumentError(
          absl::StrCat("it has '", name, "' in the place of param '", param.name, "'"));
    }
    if (std::find(param.values.begin(), param.values.end(), value) == param.values.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(ToText(value), " is not one of the values of param '", name, "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckConstraints(const SpaceDefinition& definition, const Config& config) {
  Scope scope = definition.constants;
  for (const auto& [name, value] : config.entries) scope.Set(name, value);
  for (const SpaceLet& let : definition.lets) {
    // A let that cannot be evaluated fails the constraints that need it.
    absl::StatusOr<Value> value = let.expression.Evaluate(scope);
    if (value.ok()) scope.Set(let.name, *std::move(value));
  }
  for (const SpaceConstraint& constraint : definition.constraints) {
    const absl::StatusOr<bool> holds = constraint.expression.EvaluateBoolean(scope);
    if (holds.ok() && *holds) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("constraint ", constraint.text,
                     holds.ok() ? " does not hold" : absl::StrCat(": ", holds.status().message())));
  }
  return absl::OkStatus();
}

absl::Status CheckNames(const KernelSpec& spec, const std::map<std::string, int64_t>& dims) {
  for (const auto& [name, value] : dims) {
    const auto has_name = [&, &wanted = name](const DimSpec& dim) { return dim.name == wanted; };
    if (std::any_of(spec.dims.begin(), spec.dims.end(), has_name)) continue;
    const std::string known = absl::StrJoin(
        spec.dims, ", ", [](std::string* out, const DimSpec& dim) { out->append(dim.name); });
    return absl::InvalidArgumentError(
        absl::StrCat("kernel '", spec.name, "' has no dim '", name, "'; its dims are ", known));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Problem> MakeProblem(const KernelSpec& spec,
                                    const std::map<std::string, int64_t>& dims,
                                    const std::string& dtype, const std::string& target) {
  const bool by_default = dtype.empty() && !spec.dtypes.empty();
  const std::string wanted = by_default ? spec.dtypes[0] : SpecDType(dtype);
  if (std::find(spec.dtypes.begin(), spec.dtypes.end(), wanted) == spec.dtypes.end()) {
    return absl::InvalidArgumentError(absl::StrCat("kernel '", spec.name, "' is not written for '",
                                                   wanted, "'; it takes ",
                                                   absl::StrJoin(spec.dtypes, ", ")));
  }
  RETURN_IF_ERROR(CheckNames(spec, dims));
  Problem problem;
  ASSIGN_OR_RETURN(problem.dtype, ParseDType(wanted));
  for (const DimSpec& dim : spec.dims) {
    const auto given = dims.find(dim.name);
    const int64_t value = given != dims.end() ? given->second : DefaultOf(dim, target, problem);
    RETURN_IF_ERROR(CheckDim(dim, value));
    problem.dims.emplace_back(dim.name, value);
  }
  return problem;
}

absl::Status CheckTarget(const KernelSpec& spec, const std::string& target) {
  const auto fits = [&](const std::string& pattern) { return MatchesTarget(pattern, target); };
  if (spec.targets.empty() || std::any_of(spec.targets.begin(), spec.targets.end(), fits)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("kernel '", spec.name, "' does not run on ",
                                                 target, "; it runs on ",
                                                 absl::StrJoin(spec.targets, ", ")));
}

absl::StatusOr<std::shared_ptr<const Kernel>> Kernel::CreateRules(KernelSpec spec,
                                                                  const std::string& hash) {
  ASSIGN_OR_RETURN(std::unique_ptr<ParsedSpec> parsed, ParseRules(std::move(spec), hash));
  return std::shared_ptr<const Kernel>(new Kernel(std::move(parsed)));
}

absl::StatusOr<std::shared_ptr<const Kernel>> Kernel::Create(
    KernelSpec spec, const SpecText& text, const std::map<std::string, std::string>& files,
    const std::optional<std::string>& origin) {
  ASSIGN_OR_RETURN(std::unique_ptr<ParsedSpec> parsed, ParseSpec(std::move(spec), text, files));
  parsed->origin = origin.has_value() ? *origin : absl::StrCat("kernel ", parsed->hash);
  return std::shared_ptr<const Kernel>(new Kernel(std::move(parsed)));
}

Kernel::Kernel(std::unique_ptr<const ParsedSpec> parsed) : parsed_(std::move(parsed)) {}
Kernel::~Kernel() = default;

const KernelSpec& Kernel::spec() const { return parsed_->spec; }
const std::string& Kernel::spec_text() const { return parsed_->spec_text; }
const std::map<std::string, std::string>& Kernel::files() const { return parsed_->files; }
const std::string& Kernel::hash() const { return parsed_->hash; }
const std::string& Kernel::origin() const { return parsed_->origin; }

Language Kernel::language() const { return parsed_->language; }

const std::shared_ptr<const LaunchForm>& Kernel::launch_form() const {
  return parsed_->launch_form;
}

bool Kernel::RunsOn(const std::string& target) const { return WhyNotOn(target).ok(); }

absl::Status Kernel::WhyNotOn(const std::string& target) const {
  const LanguageTraits& language = TraitsOf(parsed_->language);
  if (!language.on_host && ProfileOfTarget(target).is_host) {
    return absl::InvalidArgumentError(absl::StrCat("kernel '", spec().name, "' is written in ",
                                                   language.name, ", which runs on GPUs, not on ",
                                                   target));
  }
  return CheckTarget(spec(), target);
}

absl::StatusOr<Problem> Kernel::MakeProblem(const std::map<std::string, int64_t>& dims,
                                            const std::string& dtype,
                                            const std::string& target) const {
  RETURN_IF_ERROR(WhyNotOn(target));
  return tune::MakeProblem(spec(), dims, dtype, target);
}

absl::StatusOr<Space> Kernel::MakeSpace(const Problem& problem, const TargetTraits& traits,
                                        const SpaceEffort& effort) const {
  ASSIGN_OR_RETURN(const SpaceDefinition definition, tune::DefineSpace(*parsed_, problem, traits));
  absl::StatusOr<Space> space = Space::Build(definition, effort);
  if (space.ok()) return space;
  return absl::Status(space.status().code(),
                      absl::StrCat("kernel '", spec().name, "', ", ToText(problem), ", ",
                                   traits.target, ": ", space.status().message()));
}

absl::StatusOr<SpaceDefinition> Kernel::DefineSpace(const Problem& problem,
                                                    const TargetTraits& traits) const {
  return tune::DefineSpace(*parsed_, problem, traits);
}

absl::StatusOr<Config> Kernel::Defaults(const Problem& problem, const TargetTraits& traits) const {
  return UncheckedDefault(*parsed_, problem, traits);
}

absl::StatusOr<Config> Kernel::DefaultConfig(const Problem& problem,
                                             const TargetTraits& traits) const {
  ASSIGN_OR_RETURN(const Config config, Defaults(problem, traits));
  ASSIGN_OR_RETURN(const SpaceDefinition definition, tune::DefineSpace(*parsed_, problem, traits));
  const absl::Status valid = CheckConstraints(definition, config);
  if (valid.ok()) return config;
  return absl::InvalidArgumentError(
      absl::StrCat("kernel '", spec().name, "', ", ToText(problem), ", ", traits.target,
                   ": the default config (", ToText(config), ") is not valid: ", valid.message()));
}

absl::Status Kernel::CheckConfig(const SpaceDefinition& definition, const Config& config) {
  RETURN_IF_ERROR(CheckValues(definition, config));
  return CheckConstraints(definition, config);
}

absl::Status Kernel::CheckConfig(const Problem& problem, const TargetTraits& traits,
                                 const Config& config) const {
  ASSIGN_OR_RETURN(const SpaceDefinition definition, tune::DefineSpace(*parsed_, problem, traits));
  const absl::Status valid = CheckConfig(definition, config);
  if (valid.ok()) return valid;
  return absl::InvalidArgumentError(
      absl::StrCat("kernel '", spec().name, "', ", ToText(problem), ", ", traits.target,
                   ": the config (", ToText(config), ") is not valid: ", valid.message()));
}

}  // namespace tune
