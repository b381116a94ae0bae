// SPDX-License-Identifier: Apache-2.0
// A kernel: a checked spec with its sources. The one place where spec expressions are evaluated.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner/config.h"
#include "tuner/kernel/kernel_spec.h"
#include "tuner/plan.h"
#include "tuner/problem.h"
#include "tuner/space/space.h"
#include "tuner/transfer/launch_sizes.h"

namespace tune {

// The properties of a device that a plan needs. A target has them without a device, too (see
// TargetTraitsFor).
struct TargetTraits {
  std::string target;  // "cpu", "sm_90a"
  int sm = 0;          // 0 on the CPU, 90 for sm_90a
  int64_t max_threads_per_block = 1024;
  int64_t max_shared_bytes = 0;  // per block, static and dynamic, opt-in
  int64_t sm_count = 1;          // a nominal count where there is no device
};

// INVALID_ARGUMENT for anything but "cpu" and "sm_<number>[a|f]".
absl::StatusOr<TargetTraits> TargetTraitsFor(const std::string& target);

// Does "sm_90a" match a pattern such as "sm_*"?
bool MatchesTarget(const std::string& pattern, const std::string& target);

struct ParsedSpec;  // in tuner/kernel

// The problem of a spec: dims and dtype not given (empty) take the defaults for the target.
// INVALID_ARGUMENT names the dims there are, and the bounds.
absl::StatusOr<Problem> MakeProblem(const KernelSpec& spec,
                                    const std::map<std::string, int64_t>& dims,
                                    const std::string& dtype, const std::string& target);
// INVALID_ARGUMENT if the spec names targets, and not this one.
absl::Status CheckTarget(const KernelSpec& spec, const std::string& target);

// Immutable. Thread-safe.
class Kernel {
 public:
  // Checks a spec: every name, expression, reference between fields and limit that can be checked
  // without a problem. Errors are INVALID_ARGUMENT and read "softmax.textproto:12:9:
  // launch.grid[0]: unknown name 'row' at column 1 of 'row * 2'; in scope: ...", by the positions
  // of `text`. `files` holds the text of the source and each header; a missing one is an error,
  // others are ignored. ReadKernel of server/wire/spec.h makes a kernel of a spec's text.
  static absl::StatusOr<std::shared_ptr<const Kernel>> Create(
      KernelSpec spec, const SpecText& text, const std::map<std::string, std::string>& files,
      const std::optional<std::string>& origin = std::nullopt);
  // A kernel of the rules alone that say which configs are valid and how they are launched: dims,
  // dtypes, params, lets, constraints, targets, and of steps `when` and `launch`. It has no files,
  // so it plans no programs. A snapshot's kernels are of this kind. Errors begin with the field.
  static absl::StatusOr<std::shared_ptr<const Kernel>> CreateRules(KernelSpec spec,
                                                                   const std::string& hash);

  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  const KernelSpec& spec() const;
  const std::string& spec_text() const;
  const std::map<std::string, std::string>& files() const;
  // SHA-256 of the spec's canonical form and every file, hex.
  const std::string& hash() const;
  Language language() const;
  // Who has written it: text of one origin is not compiled, run or kept together with another's. As
  // Create was told; where it was not, an origin of this text alone.
  const std::string& origin() const;
  // By the targets that the spec names, and by what compilers make of the language.
  bool RunsOn(const std::string& target) const;
  // A sentence about a target that the kernel does not run on.
  absl::Status WhyNotOn(const std::string& target) const;

  // INVALID_ARGUMENT also if the kernel does not run on the target.
  absl::StatusOr<Problem> MakeProblem(const std::map<std::string, int64_t>& dims,
                                      const std::string& dtype, const std::string& target) const;

  // All valid configs: constraints hold, and the launch fits the target's limits.
  // INVALID_ARGUMENT if there is none; names the constraint that emptied the space. Otherwise as
  // Space::Build.
  absl::StatusOr<Space> MakeSpace(const Problem& problem, const TargetTraits& traits,
                                  const SpaceEffort& effort = {}) const;

  // The definition that MakeSpace builds a space from.
  absl::StatusOr<SpaceDefinition> DefineSpace(const Problem& problem,
                                              const TargetTraits& traits) const;

  // The spec's default config on a target; its constraints must hold.
  absl::StatusOr<Config> DefaultConfig(const Problem& problem, const TargetTraits& traits) const;
  // Each param's default by itself: together they may be no valid config.
  absl::StatusOr<Config> Defaults(const Problem& problem, const TargetTraits& traits) const;

  // Is the config one of the space? Found without the space: takes microseconds. INVALID_ARGUMENT
  // names the param or the constraint.
  absl::Status CheckConfig(const Problem& problem, const TargetTraits& traits,
                           const Config& config) const;
  // Checks one of several configs against a definition that DefineSpace gave.
  static absl::Status CheckConfig(const SpaceDefinition& definition, const Config& config);

  // The input of LaunchSizesOf (launch_sizes_of.h).
  const std::shared_ptr<const LaunchForm>& launch_form() const;

  absl::StatusOr<ProblemPlan> PlanProblem(const Problem& problem, const TargetTraits& traits) const;
  absl::StatusOr<ProgramPlan> PlanProgram(const Problem& problem, const TargetTraits& traits,
                                          const Config& config) const;
  // How that program is launched, without its entries and args: takes microseconds. REQUIRES: the
  // config is one of the space.
  absl::StatusOr<std::vector<LaunchPlan>> PlanLaunches(const Problem& problem,
                                                       const TargetTraits& traits,
                                                       const Config& config) const;

 private:
  explicit Kernel(std::unique_ptr<const ParsedSpec> parsed);
  const std::unique_ptr<const ParsedSpec> parsed_;
};

}  // namespace tune
