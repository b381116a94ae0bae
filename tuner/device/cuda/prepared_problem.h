// SPDX-License-Identifier: Apache-2.0
// A problem in device memory: its buffers between guards, the reference's outputs beside them, and
// the check of what a launch left behind.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/device/cuda/device_context.h"
#include "tuner/device/cuda/harness.h"
#include "tuner/device/cuda/loaded_program.h"
#include "tuner/device/problem_checks.h"
#include "tuner/plan.h"
#include "tuner/trial.h"

namespace tune::cuda {

// Not thread-safe. Enqueues into the context's stream.
class PreparedProblem {
 public:
  // RESOURCE_EXHAUSTED: it does not fit. INVALID_ARGUMENT: the reference is at fault.
  static absl::StatusOr<std::unique_ptr<PreparedProblem>> Create(
      const DeviceContext& context, Harness& harness, const ProblemPlan& plan,
      const std::string& reference_binary, uint64_t seed);

  // The buffer a variant's argument means. A scratch buffer that the problem has not, or not as
  // large, is allocated. INVALID_ARGUMENT if another does not agree with the problem's.
  absl::StatusOr<Harness::Array> Resolve(const BufferPlan& wanted);

  // Before any launch: INOUT buffers as they were filled.
  absl::Status RestoreInOuts();
  // Before a launch whose outputs are to be checked.
  absl::Status PoisonOutputs();

  // Enqueues the check of the last launch's results; ReadVerdict returns its result once the stream
  // is done.
  absl::Status EnqueueCheck();
  // After a wrong verdict also repairs guards and inputs, and looks for damage to the references;
  // then it waits.
  absl::StatusOr<Verdict> ReadVerdict();
  // Writes results that another program computed to outputs and in-outs. INVALID_ARGUMENT if there
  // is no such output, or it has another size.
  absl::Status SetOutputs(const std::vector<BufferFile>& outputs);

 private:
  struct Slot {
    BufferPlan plan;
    TolerancePlan tolerance;
    DeviceMemory memory;            // guard, data, guard
    DeviceMemory reference_memory;  // of an OUTPUT or INOUT
    DeviceMemory pristine;          // of an INOUT
    Harness::Array data;
    Harness::Array reference;
    std::string file;  // the elements it is filled with; empty: by its fill
    uint64_t fill_key = 0;
    uint64_t input_hash = 0;  // of an INPUT
    uint64_t reference_hash = 0;
  };

  PreparedProblem(const DeviceContext& context, Harness& harness)
      : context_(context), harness_(harness) {}
  absl::Status CheckFits(const ProblemPlan& plan) const;
  absl::Status Allocate(const ProblemPlan& plan);
  absl::Status SetGuards();
  absl::Status FillAll(uint64_t seed);
  absl::Status FillSlot(Slot& slot);
  absl::Status RunReference(const ProblemPlan& plan, const std::string& binary);
  absl::Status Upload(const std::string& elements, CUdeviceptr address);
  absl::Status TakeExpected(const ProblemPlan& plan);
  absl::Status CheckReference();
  absl::Status LoadChecker(const ProblemPlan& plan);
  // Tests the checker itself before it judges a variant.
  absl::Status TryChecker();
  absl::StatusOr<Harness::Array> ResolveForChecker(const BufferPlan& wanted);
  absl::Status RunChecker(Verdict& verdict);
  absl::StatusOr<Harness::Array> ResolveReference(const BufferPlan& wanted);
  absl::StatusOr<Harness::Array> ResolveScratch(const BufferPlan& wanted, Slot* slot);
  Slot* Find(const std::string& name);
  void JudgeOutputs(const CheckResults& results, Verdict& verdict) const;
  void JudgeGuards(const CheckResults& results, Verdict& verdict) const;
  void JudgeInputs(const CheckResults& results, Verdict& verdict) const;
  // Guards and inputs as they were.
  absl::Status Repair();
  absl::StatusOr<bool> ReferencesDamaged();

  const DeviceContext& context_;
  Harness& harness_;
  std::vector<Slot> slots_;
  std::optional<LoadedProgram> checker_;
  DeviceMemory faults_;  // a TuneFaults, where there is a checker
};

}  // namespace tune::cuda
