// SPDX-License-Identifier: Apache-2.0
// What every device checks alike: a problem before its memory is allocated, a variant's buffers
// against the problem's, and how far its outputs are from the reference's.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/device/compare.h"
#include "tuner/plan.h"
#include "tuner/trial.h"

namespace tune {

// Is it compared with the reference?
bool IsChecked(Role role);
// Is it filled before a launch? Others are poisoned.
bool IsFilled(Role role);
size_t DataBytes(const BufferPlan& buffer);
TolerancePlan ToleranceFor(const ProblemPlan& plan, const BufferPlan& buffer);

// What a file holds of a buffer, to be filled with or to be right; null: there is none.
const BufferFile* FileOf(const ProblemPlan& plan, const std::string& buffer, bool expected);

// Of all buffers, the reference's outputs and the copies that in-outs are restored from. In
// floating point: counts are a user's, and their sum may not fit in 64 bits. INVALID_ARGUMENT: a
// count below zero, a file of another size than its buffer, a reference that is not of one step, or
// none where not all that is right is in files.
absl::StatusOr<double> BytesNeeded(const ProblemPlan& plan);

// The reference's own buffer of a checked one. INVALID_ARGUMENT: it has none such, or of another
// size, or an in-out of a type that the input cannot be made into.
absl::StatusOr<BufferPlan> ReferenceBuffer(const ProblemPlan& plan, const BufferPlan& buffer);

// INVALID_ARGUMENT: the variant wants a buffer that is not as the problem has it (null: not there).
absl::Status CheckWanted(const BufferPlan& wanted, const BufferPlan* of_problem);

// What a check of a launch found; the first thing that is wrong is told in `message`.
struct Verdict {
  bool right = true;
  // Something the harness itself relies on was overwritten: nothing measured from here on counts.
  bool harness_damaged = false;
  std::string message;
  ResultError error;
};

// Adds up the comparisons of all outputs of a launch. Add fills in the verdict's error, and its
// message with the first output that is wrong.
class OutputJudge {
 public:
  // REQUIRES: `compare` is of a buffer with elements.
  void Add(const BufferPlan& buffer, const TolerancePlan& tolerance, const CompareResult& compare,
           Verdict& verdict);

 private:
  CompareResult all_ = {};
};

// The L2 norm of the errors over that of the references; infinite if the errors alone are above
// zero, or if one of them is infinite.
double RelativeNorm(const CompareResult& compare);

}  // namespace tune
