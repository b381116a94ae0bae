// SPDX-License-Identifier: Apache-2.0
#include "server/kernels/source_findings.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "tuner/device/parameters.h"
#include "tuner/device/problem_checks.h"
#include "tuner/source/source_functions.h"
#include "tuner/source/source_macros.h"

namespace tune::server {
namespace {

// Any implementation writes each of its outputs. Empty: as much is declared, or nothing at all.
std::string WhyWorkIsTooLittle(const ProblemPlan& plan) {
  double written = 0;
  for (const BufferPlan& buffer : plan.buffers) {
    if (buffer.role == Role::kOutput) written += static_cast<double>(DataBytes(buffer));
  }
  if (plan.work.bytes <= 0 || plan.work.bytes >= written) return "";
  return absl::StrFormat(
      "work: %.6g bytes are declared, but the outputs alone have %.6g: rates and shares of the "
      "roof will be too low",
      plan.work.bytes, written);
}

}  // namespace

absl::StatusOr<std::vector<SourceFinding>> CheckSource(const Kernel& kernel, const Problem& problem,
                                                       const TargetTraits& traits) {
  ASSIGN_OR_RETURN(ProblemPlan plan, kernel.PlanProblem(problem, traits));
  std::vector<SourceFinding> findings;
  const auto add = [&](SourceFinding finding) {
    if (!finding.message.empty()) findings.push_back(std::move(finding));
  };
  const auto check = [&](const ProgramPlan& program) {
    for (size_t unit = 0; unit <= program.compile.more.size(); ++unit) {
      add({.message = WhyNoKernel(PlanOfUnit(program.compile, unit)), .of_entry = true});
    }
    for (const StepPlan& step : program.steps) {
      const CompilePlan unit = PlanOfUnit(program.compile, static_cast<size_t>(step.launch.unit));
      add({.message = WhyOrderIsDoubtful(unit, step.launch.entry, step.args), .certain = false});
    }
  };
  add({.message = WhyWorkIsTooLittle(plan), .certain = false});
  if (!plan.reference.steps.empty()) check(plan.reference);
  if (!plan.checker.steps.empty()) check(plan.checker);
  ASSIGN_OR_RETURN(const Config config, kernel.Defaults(problem, traits));
  ASSIGN_OR_RETURN(const ProgramPlan program, kernel.PlanProgram(problem, traits, config));
  check(program);
  for (const Redefinition& redefinition : FindRedefinitions(program.compile)) {
    add({.message =
             absl::StrCat(redefinition.file, ":", redefinition.line, ": ", ToText(redefinition)),
         .certain = redefinition.certain});
  }
  return findings;
}

}  // namespace tune::server
