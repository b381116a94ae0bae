// SPDX-License-Identifier: Apache-2.0
#include "server/kernels/source_findings.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tuner/device/parameters.h"
#include "tuner/source/source_functions.h"
#include "tuner/source/source_macros.h"
#include "tuner/status_macros.h"

namespace tune::server {

absl::StatusOr<std::vector<SourceFinding>> CheckSource(const Kernel& kernel, const Problem& problem,
                                                       const TargetTraits& traits) {
  ASSIGN_OR_RETURN(ProblemPlan plan, kernel.PlanProblem(problem, traits));
  std::vector<SourceFinding> findings;
  const auto add = [&](SourceFinding finding) {
    if (!finding.message.empty()) findings.push_back(std::move(finding));
  };
  CompilePlan& compile = plan.reference_compile;
  add({.message = WhyNoKernel(compile), .of_entry = true});
  add({.message = WhyOrderIsDoubtful(compile, plan.reference_args), .certain = false});
  compile.entry = kernel.spec().entry();
  add({.message = WhyNoKernel(compile), .of_entry = true});
  // The tuned entry also takes tensor maps; without any, its args are the reference's.
  if (plan.reference_args.size() == static_cast<size_t>(kernel.spec().args_size())) {
    add({.message = WhyOrderIsDoubtful(compile, plan.reference_args), .certain = false});
  }
  for (const Redefinition& redefinition : FindRedefinitions(compile)) {
    add({.message =
             absl::StrCat(redefinition.file, ":", redefinition.line, ": ", ToText(redefinition)),
         .certain = redefinition.certain});
  }
  return findings;
}

}  // namespace tune::server
