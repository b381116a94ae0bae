// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/program_checks.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "tuner/device/parameters.h"
#include "tuner/source/source_functions.h"

namespace tune {
namespace {

std::string WhyBlockDoesNotFit(const CompilePlan& plan, const LaunchPlan& launch,
                               const EntryFacts& entry) {
  const int64_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  const bool exact = entry.threads > 0 && threads != entry.threads;
  const bool many = entry.threads_max > 0 && threads > entry.threads_max;
  if (!exact && !many) return "";
  return absl::StrCat(PlaceOf(plan, EntryOf(plan, entry.name)), ": '", entry.name,
                      "' is launched with ", threads, " threads a block; it was compiled for ",
                      exact ? "exactly " : "at most ", exact ? entry.threads : entry.threads_max);
}

}  // namespace

absl::Status CheckSteps(const ProgramPlan& program, const Artifact& artifact) {
  if (artifact.outcome != Outcome::kOk) return absl::OkStatus();
  for (const StepPlan& step : program.steps) {
    const auto entry =
        std::find_if(artifact.entries.begin(), artifact.entries.end(),
                     [&](const EntryFacts& known) { return known.name == step.launch.entry; });
    if (entry == artifact.entries.end()) continue;
    std::string why = WhyBlockDoesNotFit(program.compile, step.launch, *entry);
    if (why.empty() && entry->parameters.has_value()) {
      why = WhyArgsDoNotFit(program.compile, entry->name, step.args, *entry->parameters);
    }
    if (!why.empty()) return absl::InvalidArgumentError(why);
  }
  return absl::OkStatus();
}

}  // namespace tune
