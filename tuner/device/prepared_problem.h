// SPDX-License-Identifier: Apache-2.0
// A problem in a device's memory: its buffers between guards, the reference's outputs beside them,
// and the check of what a launch left behind.
//
// A runner prepares a problem once, then for each launch: RestoreInOuts and PoisonOutputs, the
// launch, EnqueueCheck, a wait for the device, ReadVerdict. All of them but the last only queue
// work where the device has a queue.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/device/device_array.h"
#include "tuner/device/problem_checks.h"
#include "tuner/device/problem_device.h"
#include "tuner/plan.h"
#include "tuner/trial.h"

namespace tune {

// Not thread-safe. A device has one at a time, and frees its memory with it.
class PreparedProblem {
 public:
  // RESOURCE_EXHAUSTED: it does not fit. INVALID_ARGUMENT: the reference or the checker is at
  // fault.
  static absl::StatusOr<std::unique_ptr<PreparedProblem>> Create(
      ProblemDevice& device, const ProblemPlan& plan, const std::string& reference_binary,
      uint64_t seed);
  ~PreparedProblem();

  // The buffer that a variant's argument means. A scratch buffer that the problem has not, or not
  // of this size, is allocated. INVALID_ARGUMENT if another does not agree with the problem's.
  absl::StatusOr<DeviceArray> Resolve(const BufferPlan& wanted);

  // Before any launch: INOUT buffers as they were filled.
  absl::Status RestoreInOuts();
  // Before a launch whose outputs are to be checked.
  absl::Status PoisonOutputs();

  // Queues the check of the last launch's results; ReadVerdict judges them once the device is done.
  // After a wrong verdict it also repairs guards and inputs, looks for damage to the references,
  // and waits. Fails if the checker does.
  absl::Status EnqueueCheck() { return EnqueueCheck(/*outputs=*/checker_ == nullptr); }
  absl::StatusOr<Verdict> ReadVerdict();
  // Both, and the wait between them.
  absl::StatusOr<Verdict> Check();
  // Restores guards and inputs, after a launch that failed half way.
  absl::Status Repair();
  // Judges results that another program computed, as those of a launch; an output that is not given
  // counts as not written. INVALID_ARGUMENT if there is no such output, or it has another size.
  absl::StatusOr<Verdict> Judge(const std::vector<BufferFile>& outputs);
  // A hash of all outputs and in-outs after the last launch. Waits.
  absl::StatusOr<uint64_t> HashOutputs();

 private:
  struct Slot {
    BufferPlan plan;
    TolerancePlan tolerance;
    DeviceArray data;
    DeviceArray reference;  // of an OUTPUT or INOUT
    DeviceArray pristine;   // of an INOUT
    std::string file;       // the elements it is filled with; empty: by its fill
    uint64_t fill_key = 0;
    uint64_t input_hash = 0;  // of an INPUT
  };

  explicit PreparedProblem(ProblemDevice& device) : device_(device) {}
  absl::Status Allocate(const ProblemPlan& plan);
  absl::Status FillAll(uint64_t seed);
  absl::Status FillSlot(const Slot& slot);
  absl::Status Poison(const DeviceArray& array);
  absl::Status RunReference(const ProblemPlan& plan, const std::string& binary);
  absl::Status TakeExpected(const ProblemPlan& plan);
  absl::Status CheckReference();
  absl::Status LoadChecker(const ProblemPlan& plan);
  // Tests the checker itself before it judges a variant.
  absl::Status TryChecker();
  absl::Status RunChecker(Verdict& verdict);
  absl::StatusOr<DeviceArray> ResolveForChecker(const BufferPlan& wanted);
  absl::StatusOr<DeviceArray> ResolveReference(const BufferPlan& wanted);
  absl::StatusOr<DeviceArray> ResolveScratch(const BufferPlan& wanted, Slot* slot);
  Slot* Find(const std::string& name);
  absl::Status EnqueueCheck(bool outputs);
  void JudgeGuardsAndInputs(Verdict& verdict) const;
  void JudgeOutputs(Verdict& verdict) const;

  ProblemDevice& device_;
  std::vector<Slot> slots_;
  std::unique_ptr<ProblemDevice::OwnProgram> checker_;
  DeviceArray faults_;  // a TuneFaults, where there is a checker
};

}  // namespace tune
