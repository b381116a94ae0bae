// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/compilers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "tuner/device/compile_request.h"
#include "tuner/device/host_call.h"
#include "tuner/device/program_checks.h"
#include "tuner/device_profile.h"
#include "tuner/trial.h"

namespace tune::server {
namespace {

bool Takes(const Toolchain& toolchain, Language language) {
  const std::vector<Language>& languages = toolchain.languages;
  return std::find(languages.begin(), languages.end(), language) != languages.end();
}

std::string PairsText(const std::vector<Toolchain>& toolchains) {
  return absl::StrJoin(toolchains, "; ", [](std::string* out, const Toolchain& toolchain) {
    absl::StrAppend(out,
                    absl::StrJoin(toolchain.languages, ", ",
                                  [](std::string* text, Language language) {
                                    absl::StrAppend(text, ToText(language));
                                  }),
                    toolchain.for_host ? " for the CPU device" : " for GPUs");
  });
}

void HoldAgainstSteps(ProgramPlan program, CompileResult& result) {
  if (TraitsOf(program.compile.language).runs_on_host) return;  // nothing is launched
  const absl::Status fits = FitSteps(result.artifact, program);
  result.steps = std::move(program.steps);
  result.symbols = std::move(program.symbols);
  if (fits.ok()) return;
  result.misfit = true;
  result.artifact.outcome = Outcome::kInvalidConfig;
  result.artifact.log = std::string(fits.message());
  result.artifact.binary.clear();
}

// Must a plan in this language go through the front end?
bool HasFront(const Toolchain& toolchain, Language language) {
  return toolchain.front != nullptr && toolchain.languages[0] == language;
}

// The plan that follows from what the front end has made of the first; nothing if it made nothing.
absl::StatusOr<std::optional<CompilePlan>> AfterFront(const Toolchain& toolchain,
                                                      const CompilePlan& plan,
                                                      CompileResult& front) {
  if (front.artifact.outcome != Outcome::kOk) return std::nullopt;
  const double seconds = front.artifact.seconds;
  ASSIGN_OR_RETURN(CompilePlan next, Lowered(plan, toolchain.languages[1], front.artifact));
  front.artifact = {.seconds = seconds};
  return next;
}

// Both compiles as one.
void AddFront(const CompileResult& front, CompileResult& result) {
  result.artifact.seconds += front.artifact.seconds;
  result.cached = result.cached && front.cached;
}

}  // namespace

absl::StatusOr<CompilePool*> Compilers::PoolFor(Language language,
                                                const std::string& target) const {
  ASSIGN_OR_RETURN(const Toolchain* toolchain, ToolchainFor(language, target));
  return toolchain->pool.get();
}

absl::StatusOr<const Toolchain*> Compilers::ToolchainFor(Language language,
                                                         const std::string& target) const {
  const bool for_host = ProfileOfTarget(target).is_host;
  bool compiles_for_target = false;
  for (const Toolchain& toolchain : toolchains_) {
    if (toolchain.for_host != for_host) continue;
    compiles_for_target = true;
    if (Takes(toolchain, language)) return &toolchain;
  }
  if (compiles_for_target) {
    return absl::UnimplementedError(
        absl::StrCat("nothing compiles ", ToText(language), " for ", target,
                     "; what can be compiled: ", PairsText(toolchains_)));
  }
  return absl::UnavailableError(
      absl::StrCat("cannot compile for ", target,
                   ": this installation has no tune-compile-cuda; build with TUNE_CUDA=ON"));
}

absl::StatusOr<CompilerInfo> Compilers::Info(Language language, const std::string& target,
                                             const Cancelled& cancelled) const {
  ASSIGN_OR_RETURN(CompilePool * pool, PoolFor(language, target));
  return pool->Info(language, cancelled);
}

std::vector<CompilePool*> Compilers::PoolsFor(const std::string& target) const {
  const bool for_host = ProfileOfTarget(target).is_host;
  std::vector<CompilePool*> pools;
  for (const Toolchain& toolchain : toolchains_) {
    if (toolchain.for_host == for_host) pools.push_back(toolchain.pool.get());
  }
  return pools;
}

std::vector<CompilePool*> Compilers::PromptPoolsFor(const std::string& target) const {
  std::vector<CompilePool*> pools = PoolsFor(target);
  std::erase_if(pools, [&](const CompilePool* pool) {
    return std::any_of(toolchains_.begin(), toolchains_.end(), [&](const Toolchain& toolchain) {
      return toolchain.pool.get() == pool && toolchain.searches;
    });
  });
  return pools;
}

std::vector<LanguageCompiler> Compilers::Languages(const std::string& target,
                                                   const Cancelled& cancelled) const {
  const bool for_host = ProfileOfTarget(target).is_host;
  std::vector<LanguageCompiler> compilers;
  for (const Toolchain& toolchain : toolchains_) {
    if (toolchain.for_host != for_host) continue;
    for (const Language language : toolchain.languages) {
      compilers.push_back({language, toolchain.pool->Info(language, cancelled)});
    }
  }
  return compilers;
}

std::vector<std::string> Compilers::Targets(Language language) const {
  std::vector<std::string> targets;
  for (const Toolchain& toolchain : toolchains_) {
    if (!Takes(toolchain, language)) continue;
    absl::StatusOr<CompilerInfo> info = toolchain.pool->Info(language);
    if (info.ok()) targets.insert(targets.end(), info->targets.begin(), info->targets.end());
  }
  return targets;
}

void Compilers::Submit(const void* owner, const ProgramPlan& program, Done done) const {
  const CompilePlan& plan = program.compile;
  const absl::StatusOr<const Toolchain*> found = ToolchainFor(plan.language, plan.target);
  if (!found.ok()) return done(found.status());
  const Toolchain& toolchain = **found;
  Done finish = [program, done = std::move(done)](absl::StatusOr<CompileResult> result) {
    if (result.ok()) HoldAgainstSteps(program, *result);
    done(std::move(result));
  };
  if (!HasFront(toolchain, plan.language)) {
    return toolchain.pool->Submit(owner, plan, std::move(finish));
  }
  toolchain.front->Submit(
      owner, ForFrontEnd(plan),
      [owner, plan, &toolchain,
       finish = std::move(finish)](absl::StatusOr<CompileResult> front) mutable {
        if (!front.ok()) return finish(std::move(front));
        absl::StatusOr<std::optional<CompilePlan>> next = AfterFront(toolchain, plan, *front);
        if (!next.ok()) return finish(next.status());
        if (!next->has_value()) return finish(std::move(front));
        toolchain.pool->Submit(owner, **std::move(next),
                               [front = *std::move(front),
                                finish = std::move(finish)](absl::StatusOr<CompileResult> result) {
                                 if (result.ok()) AddFront(front, *result);
                                 finish(std::move(result));
                               });
      });
}

absl::StatusOr<CompileResult> Compilers::Compile(const ProgramPlan& program,
                                                 const Cancelled& cancelled) const {
  const CompilePlan& plan = program.compile;
  ASSIGN_OR_RETURN(const Toolchain* toolchain, ToolchainFor(plan.language, plan.target));
  CompileResult result;
  if (HasFront(*toolchain, plan.language)) {
    ASSIGN_OR_RETURN(CompileResult front, toolchain->front->Compile(ForFrontEnd(plan), cancelled));
    ASSIGN_OR_RETURN(const std::optional<CompilePlan> next, AfterFront(*toolchain, plan, front));
    if (!next) return front;
    ASSIGN_OR_RETURN(result, toolchain->pool->Compile(*next, cancelled));
    AddFront(front, result);
  } else {
    ASSIGN_OR_RETURN(result, toolchain->pool->Compile(plan, cancelled));
  }
  HoldAgainstSteps(program, result);
  return result;
}

// The front ends first: once they rest, nothing new comes to the pools.
void Compilers::Withdraw(const void* owner) const {
  for (const Toolchain& toolchain : toolchains_) {
    if (toolchain.front != nullptr) toolchain.front->Withdraw(owner);
    toolchain.pool->Withdraw(owner);
  }
}

absl::StatusOr<std::string> Compilers::CompileReference(ProblemPlan& problem, uint64_t seed,
                                                        const Cancelled& cancelled) const {
  RETURN_IF_ERROR(CompileChecker(problem, cancelled));
  RETURN_IF_ERROR(ComputeReference(problem, seed, cancelled));
  if (problem.reference.steps.empty()) return "";
  ASSIGN_OR_RETURN(CompileResult result, Compile(problem.reference, cancelled));
  problem.reference.steps = std::move(result.steps);
  problem.reference.symbols = std::move(result.symbols);
  Artifact& artifact = result.artifact;
  if (artifact.outcome == Outcome::kOk) return std::move(artifact.binary);
  return absl::InvalidArgumentError(ReferenceFault(problem, result));
}

absl::Status Compilers::ComputeReference(ProblemPlan& problem, uint64_t seed,
                                         const Cancelled& cancelled) const {
  CompilePlan& plan = problem.host_reference;
  if (plan.entries.empty()) return absl::OkStatus();
  plan.call.seed = seed;
  ASSIGN_OR_RETURN(CompilePool * pool, PoolFor(plan.language, plan.target));
  ASSIGN_OR_RETURN(const CompileResult result, pool->Compile(plan, cancelled));
  const Artifact& artifact = result.artifact;
  if (artifact.outcome != Outcome::kOk) {
    return absl::InvalidArgumentError(
        absl::StrCat("the reference in ", ToText(plan.language), ": ",
                     artifact.log.substr(0, kMaxTrialMessageBytes / 2)));
  }
  RETURN_IF_ERROR(TakeResults(plan.call, artifact.binary, problem.files));
  plan = {};
  return absl::OkStatus();
}

absl::Status Compilers::CompileChecker(ProblemPlan& problem, const Cancelled& cancelled) const {
  ProgramPlan& checker = problem.checker;
  if (checker.steps.empty() || !problem.checker_binary.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(CompileResult result, Compile(checker, cancelled));
  if (result.artifact.outcome != Outcome::kOk) {
    const std::string log = result.artifact.log.substr(0, kMaxTrialMessageBytes / 2);
    if (result.misfit) return absl::InvalidArgumentError(absl::StrCat("the checker: ", log));
    return absl::InvalidArgumentError(
        absl::StrCat("the checker does not compile for ", checker.compile.target, ":\n", log));
  }
  checker = {.steps = std::move(result.steps), .symbols = std::move(result.symbols)};
  problem.checker_binary = std::move(result.artifact.binary);
  return absl::OkStatus();
}

std::string ReferenceFault(const ProblemPlan& problem, const CompileResult& result) {
  const std::string log = result.artifact.log.substr(0, kMaxTrialMessageBytes / 2);
  if (result.misfit) return log;
  return absl::StrCat("the reference kernel does not compile for ",
                      problem.reference.compile.target, ":\n", log);
}

absl::StatusOr<CompilePause> Compilers::PauseHost(const std::string& target,
                                                  const Cancelled& cancelled) const {
  if (!ProfileOfTarget(target).is_host) return CompilePause();
  std::vector<CompilePool*> pools;
  for (const Toolchain& toolchain : toolchains_) {
    // Who measures may wait for a reference that runs on the host.
    const bool runs = TraitsOf(toolchain.languages[0]).runs_on_host;
    if (toolchain.for_host && !runs) pools.push_back(toolchain.pool.get());
  }
  return CompilePause::Take(pools, cancelled);
}

void Compilers::ForgetMissing() const {
  for (const Toolchain& toolchain : toolchains_) {
    toolchain.pool->ForgetMissing();
    if (toolchain.front != nullptr) toolchain.front->ForgetMissing();
  }
}

uint64_t Compilers::worker_restarts() const {
  uint64_t restarts = 0;
  for (const Toolchain& toolchain : toolchains_) {
    restarts += toolchain.pool->worker_restarts();
    if (toolchain.front != nullptr) restarts += toolchain.front->worker_restarts();
  }
  return restarts;
}

}  // namespace tune::server
