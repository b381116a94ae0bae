// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/program_checks.h"

#include <cstddef>
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

const EntryFacts* FindEntry(const Artifact& artifact, const LaunchPlan& launch) {
  for (const EntryFacts& known : artifact.entries) {
    if (known.name == launch.entry && known.unit == launch.unit) return &known;
  }
  return nullptr;
}

}  // namespace

absl::Status CheckSteps(const ProgramPlan& program, const Artifact& artifact) {
  if (artifact.outcome != Outcome::kOk) return absl::OkStatus();
  for (const StepPlan& step : program.steps) {
    const EntryFacts* entry = FindEntry(artifact, step.launch);
    if (entry == nullptr) continue;
    const CompilePlan plan = PlanOfUnit(program.compile, static_cast<size_t>(entry->unit));
    std::string why = WhyBlockDoesNotFit(plan, step.launch, *entry);
    if (why.empty() && entry->parameters.has_value()) {
      why = WhyArgsDoNotFit(plan, entry->name, step.args, *entry->parameters);
    }
    if (!why.empty()) return absl::InvalidArgumentError(why);
  }
  return absl::OkStatus();
}

void Bind(const Artifact& artifact, ProgramPlan& program) {
  for (StepPlan& step : program.steps) {
    const EntryFacts* entry = FindEntry(artifact, step.launch);
    if (entry != nullptr && !entry->symbol.empty()) step.launch.entry = entry->symbol;
  }
  for (SymbolPlan& symbol : program.symbols) {
    for (const SymbolFacts& known : artifact.symbols) {
      if (known.variable != symbol.variable || known.unit != symbol.unit) continue;
      symbol.variable = known.symbol;
      break;
    }
  }
}

}  // namespace tune
