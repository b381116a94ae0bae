// SPDX-License-Identifier: Apache-2.0
// Routes each plan to the compiler of its language and target: a kernel and its reference may be of
// two languages. Every artifact is then compared with the steps that launch it, so that no caller
// launches a misfit.
//
//   ASSIGN_OR_RETURN(CompileResult result, compilers.Compile(program, cancelled));
//   if (result.artifact.outcome == Outcome::kOk) { ... }  // result.steps launch it
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/supervision/compile_pool.h"
#include "tuner/plan.h"

namespace tune::server {

// A program that compiles, with its workers.
struct Toolchain {
  bool for_host = false;  // for the CPU device; else for GPUs
  bool searches = false;  // its program looks for a Python before it tells its versions
  std::vector<Language> languages;
  std::unique_ptr<CompilePool> pool;
  // Workers that compile a source in the first language to text in the second, which `pool`
  // compiles. Null if `pool` compiles all languages.
  std::unique_ptr<CompilePool> front = nullptr;
};

// The compiler of a language, or the reason why there is none.
struct LanguageCompiler {
  Language language = Language::kCuda;
  absl::StatusOr<CompilerInfo> info = absl::UnknownError("not asked");
};

// Thread-safe once the last toolchain is added.
class Compilers {
 public:
  // Called on a thread of a pool, or at once if no compiler takes the program's language.
  using Done = CompilePool::Done;

  void Add(Toolchain toolchain) { toolchains_.push_back(std::move(toolchain)); }

  // The pool that compiles a language for a target. UNAVAILABLE in a build without CUDA;
  // UNIMPLEMENTED, with the languages and targets there are, if no compiler takes that pair.
  absl::StatusOr<CompilePool*> PoolFor(Language language, const std::string& target) const;
  // The compiler of a language for a target; its version is part of trial keys. Errors as PoolFor,
  // and UNAVAILABLE if it does not start.
  absl::StatusOr<CompilerInfo> Info(Language language, const std::string& target,
                                    const Cancelled& cancelled = {}) const;
  // Every pool that compiles for a target.
  std::vector<CompilePool*> PoolsFor(const std::string& target) const;
  // The pools whose programs report their versions at once, without looking for a Python first.
  std::vector<CompilePool*> PromptPoolsFor(const std::string& target) const;
  // The compiler of every language that this installation has a program for on the target.
  std::vector<LanguageCompiler> Languages(const std::string& target,
                                          const Cancelled& cancelled = {}) const;
  // Every target that a language can be compiled for on this host.
  std::vector<std::string> Targets(Language language) const;

  // Like the calls of CompilePool. The result has the program's steps, adapted to the artifact; it
  // is a misfit if they cannot launch it.
  void Submit(const void* owner, const ProgramPlan& program, Done done) const;
  absl::StatusOr<CompileResult> Compile(const ProgramPlan& program,
                                        const Cancelled& cancelled) const;
  void Withdraw(const void* owner) const;
  // Returns the binary of a problem's reference, and adapts the reference's steps to it; empty if
  // files hold all expected results. INVALID_ARGUMENT, with the log, if it does not compile or its
  // steps do not fit it.
  absl::StatusOr<std::string> CompileReference(ProblemPlan& problem, uint64_t seed,
                                               const Cancelled& cancelled) const;
  // The first two parts of CompileReference; same errors. CompileChecker compiles the problem's
  // checker into the problem. ComputeReference adds the host-side reference's results for the
  // inputs of `seed` to the problem's files. Each does nothing if the problem has no such part, or
  // it is already done.
  absl::Status CompileChecker(ProblemPlan& problem, const Cancelled& cancelled) const;
  absl::Status ComputeReference(ProblemPlan& problem, uint64_t seed,
                                const Cancelled& cancelled) const;

  // Pauses the compilers for the CPU while a device of a host's target measures. Compilers for GPUs
  // are never paused, and for other targets nothing is. CANCELLED like CompilePool::Pause.
  absl::StatusOr<CompilePause> PauseHost(const std::string& target,
                                         const Cancelled& cancelled) const;

  // Looks again for compilers that were not found.
  void ForgetMissing() const;

  uint64_t worker_restarts() const;

 private:
  // Errors as PoolFor.
  absl::StatusOr<const Toolchain*> ToolchainFor(Language language, const std::string& target) const;

  std::vector<Toolchain> toolchains_;
};

// Describes the fault of a reference that is not ok, for people.
std::string ReferenceFault(const ProblemPlan& problem, const CompileResult& result);

}  // namespace tune::server
