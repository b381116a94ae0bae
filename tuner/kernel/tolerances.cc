// SPDX-License-Identifier: Apache-2.0
#include "tuner/kernel/tolerances.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/problem.h"

namespace tune {
namespace {

TolerancePlan DefaultTolerance(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return {1e-12, 1e-12};
    case DType::kF32:
      return {1e-5, 1e-5};
    case DType::kBF16:
      return {2e-2, 1e-2};
    case DType::kF16:
      return {4e-3, 1e-3};
    case DType::kE4M3:
      return {2e-1, 5e-2};
    default:
      return {0, 0};
  }
}

TolerancePlan ToPlan(const ToleranceSpec& tolerance) {
  TolerancePlan plan = {.rtol = tolerance.rtol,
                        .atol = tolerance.atol,
                        .relative_norm = tolerance.relative_norm,
                        .mismatches = tolerance.mismatches};
  const bool by_norm_alone = plan.relative_norm > 0 && plan.rtol == 0 && plan.atol == 0;
  if (by_norm_alone) plan.atol = std::numeric_limits<double>::infinity();
  return plan;
}

TolerancePlan ToleranceFor(const std::vector<const ToleranceSpec*>& holding, DType dtype) {
  for (const ToleranceSpec* tolerance : holding) {
    if (tolerance->dtype == ToText(dtype)) return ToPlan(*tolerance);
  }
  return DefaultTolerance(dtype);
}

absl::StatusOr<std::vector<const ToleranceSpec*>> Holding(const ParsedSpec& parsed,
                                                          const Evaluation& evaluation) {
  std::vector<const ToleranceSpec*> holding;
  for (size_t i = 0; i < parsed.tolerances.size(); ++i) {
    bool holds = true;
    if (parsed.tolerances[i].has_value()) {
      ASSIGN_OR_RETURN(holds, evaluation.Boolean(absl::StrCat("tolerances[", i, "].when"),
                                                 *parsed.tolerances[i]));
    }
    if (holds) holding.push_back(&parsed.spec.tolerances[i]);
  }
  return holding;
}

}  // namespace

absl::Status PlanTolerances(const ParsedSpec& parsed, const Evaluation& evaluation,
                            ProblemPlan& plan) {
  ASSIGN_OR_RETURN(const std::vector<const ToleranceSpec*> holding, Holding(parsed, evaluation));
  for (const BufferPlan& buffer : plan.buffers) {
    const bool known = std::any_of(plan.tolerances.begin(), plan.tolerances.end(),
                                   [&](const auto& entry) { return entry.first == buffer.dtype; });
    if ((buffer.role == Role::kOutput || buffer.role == Role::kInOut) && !known) {
      plan.tolerances.emplace_back(buffer.dtype, ToleranceFor(holding, buffer.dtype));
    }
  }
  for (const ToleranceSpec* tolerance : holding) {
    if (tolerance->arg.empty()) continue;
    plan.buffer_tolerances.emplace_back(tolerance->arg, ToPlan(*tolerance));
  }
  return absl::OkStatus();
}

}  // namespace tune
