// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/compilers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tuner/device/program_checks.h"
#include "tuner/device_profile.h"
#include "tuner/status_macros.h"
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
                    absl::StrJoin(toolchain.languages, " and ",
                                  [](std::string* text, Language language) {
                                    absl::StrAppend(text, ToText(language));
                                  }),
                    toolchain.for_host ? " for the CPU device" : " for GPUs");
  });
}

void HoldAgainstSteps(const ProgramPlan& program, CompileResult& result) {
  const absl::Status fits = CheckSteps(program, result.artifact);
  if (fits.ok()) return;
  result.misfit = true;
  result.artifact.outcome = Outcome::kInvalidConfig;
  result.artifact.log = std::string(fits.message());
  result.artifact.binary.clear();
}

}  // namespace

absl::StatusOr<CompilePool*> Compilers::PoolFor(Language language,
                                                const std::string& target) const {
  const bool for_host = ProfileOfTarget(target).is_host;
  bool compiles_for_target = false;
  for (const Toolchain& toolchain : toolchains_) {
    if (toolchain.for_host != for_host) continue;
    compiles_for_target = true;
    if (Takes(toolchain, language)) return toolchain.pool.get();
  }
  if (compiles_for_target) {
    return absl::UnimplementedError(absl::StrCat("nothing compiles ", ToText(language), " for ",
                                                 target, "; what can be compiled: ",
                                                 PairsText(toolchains_)));
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
  const absl::StatusOr<CompilePool*> pool = PoolFor(plan.language, plan.target);
  if (!pool.ok()) return done(pool.status());
  (*pool)->Submit(owner, plan,
                  [program, done = std::move(done)](absl::StatusOr<CompileResult> result) {
                    if (result.ok()) HoldAgainstSteps(program, *result);
                    done(std::move(result));
                  });
}

absl::StatusOr<CompileResult> Compilers::Compile(const ProgramPlan& program,
                                                 const Cancelled& cancelled) const {
  const CompilePlan& plan = program.compile;
  ASSIGN_OR_RETURN(CompilePool * pool, PoolFor(plan.language, plan.target));
  ASSIGN_OR_RETURN(CompileResult result, pool->Compile(plan, cancelled));
  HoldAgainstSteps(program, result);
  return result;
}

void Compilers::Withdraw(const void* owner) const {
  for (const Toolchain& toolchain : toolchains_) toolchain.pool->Withdraw(owner);
}

absl::StatusOr<std::string> Compilers::CompileReference(const ProblemPlan& problem,
                                                        const Cancelled& cancelled) const {
  ASSIGN_OR_RETURN(CompileResult result, Compile(problem.reference, cancelled));
  Artifact& artifact = result.artifact;
  if (artifact.outcome == Outcome::kOk) return std::move(artifact.binary);
  return absl::InvalidArgumentError(ReferenceFault(problem, result));
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
  return CompilePause::Take(PoolsFor(target), cancelled);
}

uint64_t Compilers::worker_restarts() const {
  uint64_t restarts = 0;
  for (const Toolchain& toolchain : toolchains_) restarts += toolchain.pool->worker_restarts();
  return restarts;
}

}  // namespace tune::server
