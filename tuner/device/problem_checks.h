// SPDX-License-Identifier: Apache-2.0
// What every device checks alike: a problem before its memory is allocated, a variant's buffers
// against the problem's, and how far its outputs are from the reference's.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

// Adds up the comparisons of all outputs; each device has its own kind of CompareResult.
class OutputJudge {
 public:
  template <typename CompareResult>
  void Add(const BufferPlan& buffer, const TolerancePlan& tolerance, const CompareResult& compare,
           Verdict& verdict) {
    ResultError& error = verdict.error;
    error.max_abs = std::max(error.max_abs, compare.max_abs);
    error.max_rel = std::max(error.max_rel, compare.max_rel);
    error.bad_elements += compare.bad;
    error_squares_ += compare.error_squares;
    reference_squares_ += compare.reference_squares;
    if (reference_squares_ > 0) error.relative_l2 = std::sqrt(error_squares_ / reference_squares_);
    const std::string element = absl::StrCat(buffer.name, "[", compare.worst_index, "]");
    if (error.worst.empty() || compare.worst_excess > worst_excess_) {
      worst_excess_ = compare.worst_excess;
      error.worst = absl::StrFormat("%s: %.9g, reference %.9g", element, compare.worst_value,
                                    compare.worst_reference);
    }
    if (!verdict.right) return;
    const double norm = RelativeNorm(compare);
    if (tolerance.relative_norm > 0 && !(norm <= tolerance.relative_norm)) {
      verdict.right = false;
      verdict.message = absl::StrFormat("%s: the relative L2 error is %.3g, more than %g",
                                        buffer.name, norm, tolerance.relative_norm);
      return;
    }
    const double allowed = tolerance.mismatches * static_cast<double>(buffer.count);
    if (compare.nan == 0 && static_cast<double>(compare.bad) <= allowed) return;
    verdict.right = false;
    verdict.message = absl::StrFormat(
        "%s is %.9g, the reference %.9g (rtol %g, atol %g); %u of %d elements are wrong", element,
        compare.worst_value, compare.worst_reference, tolerance.rtol, tolerance.atol, compare.bad,
        buffer.count);
    if (tolerance.mismatches > 0) {
      absl::StrAppend(&verdict.message, ", more than ", tolerance.mismatches * 100, "%");
    }
    if (compare.nan > 0) {
      absl::StrAppend(&verdict.message, ", ", compare.nan, " of them NaN or never written");
    }
  }

 private:
  template <typename CompareResult>
  static double RelativeNorm(const CompareResult& compare) {
    if (compare.error_squares == 0) return 0;
    return std::sqrt(compare.error_squares / compare.reference_squares);  // may be infinite
  }

  double error_squares_ = 0;
  double reference_squares_ = 0;
  double worst_excess_ = 0;
};

}  // namespace tune
