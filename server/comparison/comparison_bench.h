// SPDX-License-Identifier: Apache-2.0
// Where kernels are compared: worker processes of one device, one for each kernel, fresh in each
// round and asked by turns.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/supervision/device_supervisor.h"
#include "tuner/plan.h"

namespace tune::server {

// What a kernel runs on a problem.
struct ComparedProgram {
  ProblemPlan problem;
  std::string reference_binary;
  ProgramPlan plan;
  std::string binary;
};

// Fills the inputs of a problem with what the first kernel's problem has of the same names, be it a
// fill or a file, for its reference on the host as well. `notes` say, for people, what that changes
// and what has no equal. Ahead of any compilation. INVALID_ARGUMENT: files say what is right of the
// problem, which hold of the inputs that it had.
absl::Status ShareInputs(const ProblemPlan& first, ProblemPlan& problem,
                         std::vector<std::string>& notes);

// Inputs that only another kernel has are filled, as it says, beside those of `problem`.
void AddInputs(const ProblemPlan& other, ProblemPlan& problem);

// Not thread-safe. The caller has the device's turn.
class ComparisonBench {
 public:
  // `device` must outlive the bench. `measured`: for each of the comparison, is it measured here?
  ComparisonBench(const DeviceSupervisor& device, const std::vector<bool>& measured,
                  const SamplePolicy& policy, uint64_t seed, const Cancelled& cancelled);

  const SamplePolicy& policy() const { return policy_; }

  // A fresh process for each kernel, all started at the same time.
  absl::Status Renew();
  void Close();

  // Checks the kernel against its own reference and times it, in its own process. A problem that
  // cannot be prepared is kLaunchFailed. A non-OK status: the device is lost.
  absl::StatusOr<RunReport> Measure(size_t kernel, const ComparedProgram& program);

  // Checks the outputs of others against the reference of `first`, in one process: a report for
  // each. What a program has in common with `first`, by name, it takes as that has it.
  absl::StatusOr<std::vector<RunReport>> Agree(const ComparedProgram& first,
                                               const std::vector<const ComparedProgram*>& others);
  // As Agree, of what others have computed themselves.
  absl::StatusOr<RunReport> Judge(const ComparedProgram& first,
                                  const std::vector<BufferFile>& outputs);

 private:
  // Alone on the device, if it does not fit beside the others. Why it cannot be; empty if it can.
  absl::StatusOr<std::string> Prepare(size_t kernel, const ProblemPlan& problem,
                                      const std::string& reference_binary);

  std::vector<std::unique_ptr<DeviceSupervisor>> twins_;  // null: measured elsewhere
  const SamplePolicy policy_;
  const uint64_t seed_;
  const Cancelled& cancelled_;
};

}  // namespace tune::server
