// SPDX-License-Identifier: Apache-2.0
// From the constraints of a space to the diagrams of its components. Internal to tuner/space.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "tuner/space/column_plan.h"
#include "tuner/space/diagram.h"
#include "tuner/space/diagram_builder.h"
#include "tuner/space/program_runner.h"
#include "tuner/space/space.h"
#include "tuner/space/term_builder.h"

namespace tune {

// Params that share no constraint with any other group, and their assignments.
struct Solution {
  // Sorted by their smallest param. A single one with a count of 0 says that there is no
  // assignment.
  std::vector<Diagram> components;
  // Conjuncts that were left out, since with them a diagram would be too wide. They are to be
  // checked config by config.
  std::vector<size_t> deferred;

  bool is_empty() const { return components.size() == 1 && components[0].count() == 0; }
};

struct SolveLimits {
  DiagramLimits diagram;  // of all components together
  int deferrals = 0;      // how many conjuncts may be left out
};

class Solver {
 public:
  // `definition` must outlive the solver. INVALID_ARGUMENT as CheckDefinition.
  static absl::StatusOr<std::unique_ptr<Solver>> Create(const SpaceDefinition& definition);

  // Solves with the constraints for which `uses` is true. INVALID_ARGUMENT if a constraint cannot
  // be evaluated where the others hold; RESOURCE_EXHAUSTED over a limit; CANCELLED if stopped.
  absl::StatusOr<Solution> Solve(const SolveLimits& limits,
                                 absl::FunctionRef<bool(size_t constraint)> uses);

  // The conjuncts as programs, compiled when first needed.
  const CompiledSpace& compiled();

  // Operations on words so far, roughly.
  uint64_t work() const { return work_; }

 private:
  // Sets `widest`, an index in `atoms`, if a diagram became too wide because of it.
  absl::StatusOr<Solution> SolveOnce(const DiagramLimits& limits, const std::vector<Atom>& atoms,
                                     absl::Status* failure, std::optional<size_t>* widest);
  explicit Solver(const SpaceDefinition& definition);
  void AddAtoms();
  // False if one of the constant atoms is false.
  bool ConstantsHold(const std::vector<Atom>& atoms, absl::Status* failure);
  std::vector<ParamSet> Connected(const std::vector<Atom>& atoms) const;
  DiagramResult Build(ParamSet component, const std::vector<Atom>& atoms,
                      const DiagramLimits& limits, std::vector<size_t>* order);
  absl::Status FailureAt(const std::vector<Atom>& atoms, ParamSet component,
                         const std::vector<uint16_t>& digits);

  const SpaceDefinition& definition_;
  TermBuilder terms_;
  std::vector<Atom> atoms_;
  std::vector<size_t> radices_;
  std::optional<CompiledSpace> compiled_;
  std::unique_ptr<ProgramRunner> runner_;
  uint64_t work_ = 0;
};

}  // namespace tune
