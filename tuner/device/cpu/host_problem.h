// SPDX-License-Identifier: Apache-2.0
// A problem in memory: its buffers between guards, the reference's outputs beside them, and the
// check of what a launch left behind.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/device/cpu/guarded_buffer.h"
#include "tuner/device/cpu/host_check.h"
#include "tuner/device/cpu/launcher.h"
#include "tuner/device/cpu/loaded_program.h"
#include "tuner/device/problem_checks.h"
#include "tuner/plan.h"
#include "tuner/trial.h"

namespace tune::cpu {

// Not thread-safe.
class HostProblem {
 public:
  // RESOURCE_EXHAUSTED: it does not fit in `memory_bytes_max`. INVALID_ARGUMENT: the reference is
  // at fault.
  static absl::StatusOr<std::unique_ptr<HostProblem>> Create(Launcher& launcher,
                                                             const ProblemPlan& plan,
                                                             const std::string& reference_binary,
                                                             uint64_t seed,
                                                             int64_t memory_bytes_max);

  // The buffer that a variant's argument means. A scratch buffer that the problem has not, or not
  // as large, is allocated. INVALID_ARGUMENT if another does not agree with the problem's.
  absl::StatusOr<void*> Resolve(const BufferPlan& wanted);

  // Before any launch: INOUT buffers as they were filled.
  void RestoreInOuts();
  // Before a launch whose outputs are to be checked.
  void PoisonOutputs();
  // Every buffer is in memory only.
  void FlushFromCaches();
  // Judges the results of the last launch. Restores guards and inputs after a wrong verdict.
  // Returns an error if the checker failed (Launcher::Launch).
  absl::StatusOr<Verdict> Check();
  // Writes results that another program computed to outputs and in-outs. INVALID_ARGUMENT if there
  // is no such output, or it has another size.
  absl::Status SetOutputs(const std::vector<BufferFile>& outputs);
  // A hash of all checked buffers after the last launch.
  uint64_t HashOutputs() const;
  // Restores guards and inputs after a launch that failed half way.
  void Repair();

 private:
  struct Slot {
    BufferPlan plan;
    TolerancePlan tolerance;
    GuardedBuffer memory;
    GuardedBuffer reference_memory;  // of an OUTPUT or INOUT; read-only once the reference has run
    GuardedBuffer pristine;          // of an INOUT; read-only
    HostArray reference;
    std::string file;  // the elements it is filled with; empty: by its fill
    uint64_t fill_key = 0;
    uint64_t input_hash = 0;  // of an INPUT

    HostArray data() const { return {plan.dtype, memory.data(), plan.count}; }
  };

  explicit HostProblem(Launcher& launcher) : launcher_(launcher) {}
  absl::Status CheckFits(const ProblemPlan& plan) const;
  absl::Status Allocate(const ProblemPlan& plan);
  void FillAll(uint64_t seed);
  void FillSlot(Slot& slot);
  void SetBytes(void* data, size_t bytes, unsigned char byte);
  void CopyBytes(void* to, const void* from, size_t bytes);
  absl::Status RunReference(const ProblemPlan& plan, const std::string& binary);
  absl::Status TakeExpected(const ProblemPlan& plan);
  absl::Status CheckReference();
  absl::Status LoadChecker(const ProblemPlan& plan);
  // Tests the checker itself before it judges a variant.
  absl::Status TryChecker();
  absl::StatusOr<void*> ResolveForChecker(const BufferPlan& wanted);
  absl::Status RunChecker(Verdict& verdict);
  absl::StatusOr<void*> ResolveReference(const BufferPlan& wanted);
  absl::StatusOr<void*> ResolveScratch(const BufferPlan& wanted, Slot* slot);
  Slot* Find(const std::string& name);
  void JudgeGuards(Verdict& verdict) const;
  void JudgeInputs(Verdict& verdict) const;
  void JudgeOutputs(Verdict& verdict) const;
  // Which elements still hold the poison of before the launch, as a sentence; empty: none.
  std::string DescribeUnwritten(const Slot& slot) const;

  Launcher& launcher_;
  int64_t memory_bytes_max_ = 0;
  std::vector<Slot> slots_;
  std::optional<LoadedProgram> checker_;
  GuardedBuffer faults_;  // a TuneFaults, where there is a checker
};

}  // namespace tune::cpu
