// SPDX-License-Identifier: Apache-2.0
// Who compiles what. A plan goes to the compiler of its own language and target: a kernel and its
// reference may be of two languages. What was made is held against the steps that launch it, here
// and for everybody.
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
  // Workers that make, of a source in the first of the languages, the text in the second of them
  // that `pool` compiles. Null: `pool` compiles them all.
  std::unique_ptr<CompilePool> front = nullptr;
};

// What compiles a language, or why nothing does.
struct LanguageCompiler {
  Language language = Language::kCuda;
  absl::StatusOr<CompilerInfo> info = absl::UnknownError("not asked");
};

// Thread-safe once the last toolchain is added.
class Compilers {
 public:
  // Called on a thread of a pool, or at once where nothing compiles the program's language.
  using Done = CompilePool::Done;

  void Add(Toolchain toolchain) { toolchains_.push_back(std::move(toolchain)); }

  // The pool that compiles a language for a target. UNAVAILABLE in a build without CUDA;
  // UNIMPLEMENTED, with what there is, where no compiler takes that language for that target.
  absl::StatusOr<CompilePool*> PoolFor(Language language, const std::string& target) const;
  // The compiler of a language for a target; its version is what keys have. As PoolFor, and
  // UNAVAILABLE if it cannot be had.
  absl::StatusOr<CompilerInfo> Info(Language language, const std::string& target,
                                    const Cancelled& cancelled = {}) const;
  // Every pool that compiles for a target.
  std::vector<CompilePool*> PoolsFor(const std::string& target) const;
  // Those whose programs tell their versions at once: none has to look for a Python first.
  std::vector<CompilePool*> PromptPoolsFor(const std::string& target) const;
  // Of every language that this installation has a program for, where it is for the target.
  std::vector<LanguageCompiler> Languages(const std::string& target,
                                          const Cancelled& cancelled = {}) const;
  // Every target that a language can be compiled for on this host.
  std::vector<std::string> Targets(Language language) const;

  // As the pool's calls of these names. The result has the program's steps as they launch what was
  // made of it; if they cannot, it is a misfit.
  void Submit(const void* owner, const ProgramPlan& program, Done done) const;
  absl::StatusOr<CompileResult> Compile(const ProgramPlan& program,
                                        const Cancelled& cancelled) const;
  void Withdraw(const void* owner) const;
  // The binary of a problem's reference, whose steps become those that launch it; empty where files
  // hold all that is right. INVALID_ARGUMENT, with the log: it does not compile, or its steps do
  // not fit it.
  absl::StatusOr<std::string> CompileReference(ProblemPlan& problem, uint64_t seed,
                                               const Cancelled& cancelled) const;
  // Parts of CompileReference, with its errors; nothing where there is none such, or no more. The
  // problem's checker is compiled into it. What the reference on the host computes for the inputs
  // of a seed becomes files of the problem.
  absl::Status CompileChecker(ProblemPlan& problem, const Cancelled& cancelled) const;
  absl::Status ComputeReference(ProblemPlan& problem, uint64_t seed,
                                const Cancelled& cancelled) const;

  // Holds still whoever compiles for the CPU while a device of a host's target measures. Compilers
  // of GPUs are never held: for other targets, nothing is. CANCELLED as CompilePool::Pause.
  absl::StatusOr<CompilePause> PauseHost(const std::string& target,
                                         const Cancelled& cancelled) const;

  // Compilers that were not found are looked for again.
  void ForgetMissing() const;

  uint64_t worker_restarts() const;

 private:
  // UNAVAILABLE, UNIMPLEMENTED as PoolFor.
  absl::StatusOr<const Toolchain*> ToolchainFor(Language language, const std::string& target) const;

  std::vector<Toolchain> toolchains_;
};

// What is wrong with a reference that is not ok, for people.
std::string ReferenceFault(const ProblemPlan& problem, const CompileResult& result);

}  // namespace tune::server
