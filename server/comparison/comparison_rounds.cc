// SPDX-License-Identifier: Apache-2.0
#include "server/comparison/comparison_rounds.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/comparison/shared_inputs.h"
#include "server/measure/compile_set.h"
#include "tuner/device/problem_checks.h"

namespace tune::server {
namespace {

RunReport NotRun(const absl::Status& why) {
  return {.outcome = Outcome::kLaunchFailed, .message = std::string(why.message())};
}

// Checks that a buffer of another kernel's program is like the problem's buffer of its name. An
// output that the problem does not have becomes scratch. INVALID_ARGUMENT, in words for people, if
// sizes, types or directions differ.
absl::Status BindToProblem(const ProblemPlan& problem, BufferPlan& buffer) {
  if (buffer.role == Role::kScratch) return absl::OkStatus();
  const BufferPlan* known = FindBuffer(problem, buffer.name);
  if (known == nullptr) {
    buffer.role = Role::kScratch;
    return absl::OkStatus();
  }
  if (CheckWanted(buffer, known).ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", buffer.name, "' is ", buffer.count, " ", ToText(buffer.dtype),
                   ", the first kernel's is ", known->count, " ", ToText(known->dtype),
                   known->role == buffer.role ? "" : ", or one reads what the other writes"));
}

// A kernel's program on another kernel's problem. Errors are those of BindToProblem.
absl::StatusOr<Program> ProgramOn(const ProblemPlan& problem, const Variant& other) {
  Program program = ProgramOf(other.plan, other.compiled);
  for (StepPlan& step : program.steps) {
    for (ArgPlan& arg : step.args) {
      BufferPlan* buffer = BufferOf(arg);
      if (buffer != nullptr) RETURN_IF_ERROR(BindToProblem(problem, *buffer));
    }
  }
  for (SymbolPlan& symbol : program.symbols) RETURN_IF_ERROR(BindToProblem(problem, symbol.buffer));
  return program;
}

}  // namespace

absl::StatusOr<RunReport> ComparisonRounds::Measure(size_t kernel, const Variant& variant) {
  const absl::Status prepared = session_.Prepare(
      kernel, variant.problem, variant.reference.artifact.binary, seed_, IfFull::kUseAlone);
  if (IsVariantsFault(prepared)) return NotRun(prepared);
  RETURN_IF_ERROR(prepared);
  ASSIGN_OR_RETURN(Leg leg,
                   session_.Measure(kernel, {ProgramOf(variant.plan, variant.compiled), policy_}));
  return std::move(leg.report);
}

absl::StatusOr<RunReport> ComparisonRounds::Judge(const Variant& first,
                                                  const std::vector<BufferFile>& outputs) {
  const absl::Status prepared = session_.Prepare(
      measured_[0], first.problem, first.reference.artifact.binary, seed_, IfFull::kUseAlone);
  if (IsVariantsFault(prepared)) return NotRun(prepared);
  RETURN_IF_ERROR(prepared);
  return session_.Judge(measured_[0], outputs);
}

absl::StatusOr<std::vector<RunReport>> ComparisonRounds::CheckOthers(
    const Variant& first, const std::vector<const Variant*>& others) {
  ProblemPlan problem = first.problem;
  for (const Variant* other : others) AddInputs(other->problem, problem);
  const absl::Status prepared = session_.Prepare(
      measured_[0], problem, first.reference.artifact.binary, seed_, IfFull::kUseAlone);
  if (IsVariantsFault(prepared)) return std::vector<RunReport>(others.size(), NotRun(prepared));
  RETURN_IF_ERROR(prepared);
  const SamplePolicy once{.cache_mode = policy_.cache_mode,
                          .samples_min = 1,
                          .samples_max = 1,
                          .seconds_max = policy_.seconds_max,
                          .precision = 1};
  std::vector<RunReport> reports;
  for (const Variant* other : others) {
    const absl::StatusOr<Program> program = ProgramOn(problem, *other);
    if (!program.ok()) {
      reports.push_back(
          {.outcome = Outcome::kInvalidConfig, .message = std::string(program.status().message())});
      continue;
    }
    ASSIGN_OR_RETURN(Leg leg, session_.Measure(measured_[0], {*program, once}));
    reports.push_back(std::move(leg.report));
  }
  return reports;
}

}  // namespace tune::server
