// SPDX-License-Identifier: Apache-2.0
// Checks that every device shares: a problem before its memory is allocated, a variant's buffers
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
// A buffer is poisoned with this byte: NaN for floats, an unlikely value for integers.
unsigned char PoisonByte(DType dtype);
size_t DataBytes(const BufferPlan& buffer);
TolerancePlan ToleranceFor(const ProblemPlan& plan, const BufferPlan& buffer);

// The file with a buffer's input or expected elements; null if there is none.
const BufferFile* FileOf(const ProblemPlan& plan, const std::string& buffer, bool expected);

// The bytes of all buffers, the reference's outputs and the copies that in-outs are restored from.
// A double, since counts are a user's and their sum may not fit in 64 bits. INVALID_ARGUMENT if a
// count is negative, a file has another size than its buffer, the reference has not one step, or
// there is no reference and files do not hold all expected results.
absl::StatusOr<double> BytesNeeded(const ProblemPlan& plan);

// The reference's own buffer of a checked one. INVALID_ARGUMENT if there is none, it has another
// size, or it is an in-out of a type to which the input cannot be converted.
absl::StatusOr<BufferPlan> ReferenceBuffer(const ProblemPlan& plan, const BufferPlan& buffer);

// INVALID_ARGUMENT if a buffer of the variant differs from the problem's (null: the problem has
// none).
absl::Status CheckWanted(const BufferPlan& wanted, const BufferPlan* of_problem);

// The result of checking a launch; `message` reports the first error.
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
