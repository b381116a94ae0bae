// SPDX-License-Identifier: Apache-2.0
#include "tuner/space/effects.h"

#include "base/status_macros.h"
#include "tuner/space/solver.h"

namespace tune {
namespace {

constexpr DiagramCost kLargeEffects = {.work = 50'000'000, .bytes = 32 << 20, .edges = 2'000'000};
constexpr DiagramCost kSmallEffects = {.work = 1'000'000, .bytes = 1 << 20, .edges = 64'000};
// For all of them together.
constexpr uint64_t kLargeWork = 800'000'000;
constexpr uint64_t kSmallWork = 8'000'000;

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
                                                                double valid,
                                                                const SpaceEffort& effort) {
  const bool small = effort.size == SpaceEffort::Size::kSmall;
  ASSIGN_OR_RETURN(const std::unique_ptr<Solver> solver, Solver::Create(definition));
  const SolveLimits limits = {.diagram = {small ? kSmallEffects : kLargeEffects, effort.stopped}};
  const uint64_t work_max = small ? kSmallWork : kLargeWork;
  const double product = ProductOf(definition);
  std::vector<ConstraintEffect> effects;
  for (size_t i = 0; i < definition.constraints.size(); ++i) {
    ConstraintEffect effect = {.text = definition.constraints[i].text};
    if (solver->work() < work_max) {
      const auto only = CountOf(solver->Solve(limits, [i](size_t other) { return other == i; }));
      const auto rest = CountOf(solver->Solve(limits, [i](size_t other) { return other != i; }));
      if (limits.diagram.ShouldStop()) {
        return absl::CancelledError("cancelled while what constraints reject was being counted");
      }
      if (small && (!only.has_value() || !rest.has_value())) break;
      if (only.has_value()) effect.rejects = product - *only;
      if (rest.has_value()) effect.rejects_alone = *rest - valid;
    }
    effects.push_back(std::move(effect));
  }
  if (small && (effects.size() < definition.constraints.size() || solver->work() >= work_max)) {
    return absl::AbortedError("what constraints reject is not counted with a small effort");
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
