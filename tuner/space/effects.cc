// SPDX-License-Identifier: Apache-2.0
#include "tuner/space/effects.h"

#include "tuner/space/solver.h"
#include "tuner/status_macros.h"

namespace tune {
namespace {

constexpr SolveLimits kLimits = {
    .diagram = {.work = 50'000'000, .words = 8'000'000, .edges = 4'000'000}};
// Counting more of them without each takes too long.
constexpr size_t kMaxConstraints = 200;

std::optional<double> CountOf(const absl::StatusOr<Solution>& solution) {
  if (!solution.ok()) return std::nullopt;
  double count = 1;
  for (const Diagram& component : solution->components) {
    count *= static_cast<double>(component.count());
  }
  return count;
}

}  // namespace

absl::StatusOr<std::vector<ConstraintEffect>> ConstraintEffects(const SpaceDefinition& definition,
                                                                double valid) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Solver> solver, Solver::Create(definition));
  const double product = ProductOf(definition);
  std::vector<ConstraintEffect> effects;
  for (size_t i = 0; i < definition.constraints.size(); ++i) {
    ConstraintEffect effect = {.text = definition.constraints[i].text};
    if (definition.constraints.size() <= kMaxConstraints) {
      const auto only = CountOf(solver->Solve(kLimits, [i](size_t other) { return other == i; }));
      const auto rest = CountOf(solver->Solve(kLimits, [i](size_t other) { return other != i; }));
      if (only.has_value()) effect.rejects = product - *only;
      if (rest.has_value()) effect.rejects_alone = *rest - valid;
    }
    effects.push_back(std::move(effect));
  }
  return effects;
}

double ProductOf(const SpaceDefinition& definition) {
  double product = 1;
  for (const SpaceParam& param : definition.params) {
    product *= static_cast<double>(param.values.size());
  }
  return product;
}

}  // namespace tune
