// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/program_checks.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/device/parameters.h"
#include "tuner/device/tensor_descriptor.h"
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

// A plan that is bound has the binary's names.
const EntryFacts* FindEntry(const Artifact& artifact, const LaunchPlan& launch) {
  for (const EntryFacts& known : artifact.entries) {
    const bool named =
        known.name == launch.entry || (!known.symbol.empty() && known.symbol == launch.entry);
    if (named && known.unit == launch.unit) return &known;
  }
  return nullptr;
}

// The args that the entry takes by name. One that it does not take was known to the compiler.
absl::Status TakeByName(const std::vector<ParameterFact>& parameters, StepPlan& step) {
  std::vector<ArgPlan> taken;
  for (const ParameterFact& parameter : parameters) {
    absl::StatusOr<ArgPlan> arg = ArgOfParameter(step.args, parameter);
    if (!arg.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", step.launch.entry, "' takes ", arg.status().message()));
    }
    taken.push_back(*std::move(arg));
  }
  step.args = std::move(taken);
  return absl::OkStatus();
}

// Overlapping launches must not share it: a program's steps run one after the other.
absl::Status AddScratch(const std::vector<ScratchFact>& scratch, StepPlan& step) {
  constexpr int64_t kScratchBytesMax = int64_t{1} << 36;
  const std::array<int64_t, 3>& grid = step.launch.grid;  // clusters counted in
  for (size_t i = 0; i < scratch.size(); ++i) {
    const std::string name = absl::StrCat("scratch of ", step.launch.entry, " ", i);
    if (scratch[i].bytes == 0) {
      step.args.emplace_back(ScalarPlan{name, DType::kI64, int64_t{0}});
      continue;
    }
    const double bytes = static_cast<double>(scratch[i].bytes) * static_cast<double>(grid[0]) *
                         static_cast<double>(grid[1]) * static_cast<double>(grid[2]);
    if (bytes > static_cast<double>(kScratchBytesMax)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", step.launch.entry, "' wants ", scratch[i].bytes,
                       " bytes of scratch for each block, too much for a grid of ", grid[0], " x ",
                       grid[1], " x ", grid[2]));
    }
    step.args.emplace_back(BufferPlan{.name = name,
                                      .dtype = DType::kU8,
                                      .count = static_cast<int64_t>(bytes),
                                      .role = Role::kScratch});
  }
  return absl::OkStatus();
}

// Launches the step as the compiler requires for this entry.
absl::Status LaunchAsCompiled(const EntryFacts& entry, StepPlan& step) {
  const LaunchFacts& facts = *entry.launch;
  LaunchPlan& launch = step.launch;
  launch.block = {facts.threads, 1, 1};
  if (launch.cluster[0] != facts.cluster) launch.grid[0] *= facts.cluster;
  launch.cluster = {facts.cluster, 1, 1};
  launch.shared_bytes = facts.shared_bytes;
  const auto named = [](const ParameterFact& parameter) { return !parameter.name.empty(); };
  if (entry.parameters.has_value() &&
      std::all_of(entry.parameters->begin(), entry.parameters->end(), named)) {
    RETURN_IF_ERROR(TakeByName(*entry.parameters, step));
  }
  return absl::OkStatus();
}

absl::Status FitStep(const CompilePlan& compile, const EntryFacts& entry, bool alone,
                     StepPlan& step) {
  if (entry.launch.has_value()) RETURN_IF_ERROR(LaunchAsCompiled(entry, step));
  std::string why = WhyBlockDoesNotFit(compile, step.launch, entry);
  if (why.empty() && entry.parameters.has_value()) {
    why = WhyArgsDoNotFit(compile, entry.name, step.args, *entry.parameters, alone);
  }
  if (!why.empty()) return absl::InvalidArgumentError(why);
  return entry.launch.has_value() ? AddScratch(entry.launch->scratch, step) : absl::OkStatus();
}

void BindSymbols(const Artifact& artifact, ProgramPlan& program) {
  for (SymbolPlan& symbol : program.symbols) {
    for (const SymbolFacts& known : artifact.symbols) {
      if (known.variable != symbol.variable || known.unit != symbol.unit) continue;
      symbol.variable = known.symbol;
      break;
    }
  }
}

}  // namespace

absl::Status FitSteps(const Artifact& artifact, ProgramPlan& program) {
  if (artifact.outcome != Outcome::kOk) return absl::OkStatus();
  for (StepPlan& step : program.steps) {
    const EntryFacts* entry = FindEntry(artifact, step.launch);
    if (entry == nullptr) continue;
    const CompilePlan plan = PlanOfUnit(program.compile, static_cast<size_t>(entry->unit));
    RETURN_IF_ERROR(FitStep(plan, *entry, /*alone=*/artifact.entries.size() == 1, step));
    if (!entry->symbol.empty()) step.launch.entry = entry->symbol;
  }
  BindSymbols(artifact, program);
  return absl::OkStatus();
}

}  // namespace tune
