// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/problem_checks.h"

#include <cmath>
#include <limits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace tune {
namespace {

const BufferPlan* FindReferenceArg(const ProblemPlan& plan, const std::string& name) {
  if (plan.reference.steps.empty()) return nullptr;
  for (const ArgPlan& arg : plan.reference.steps[0].args) {
    const auto* buffer = std::get_if<BufferPlan>(&arg);
    if (buffer != nullptr && buffer->name == name) return buffer;
  }
  return nullptr;
}

absl::Status CheckFiles(const ProblemPlan& plan, const BufferPlan& buffer) {
  const BufferFile* right = FileOf(plan, buffer.name, /*expected=*/true);
  const bool judged = !plan.checker.steps.empty() || !plan.reference.steps.empty();
  if (!judged && IsChecked(buffer.role) && right == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("no reference, checker or file tells what is right of '", buffer.name, "'"));
  }
  for (const BufferFile& file : plan.files) {
    if (file.buffer != buffer.name) continue;
    const int64_t bytes = buffer.count * SizeInBytes(file.dtype);
    const bool fits = static_cast<int64_t>(file.elements.size()) == bytes;
    if (fits && (file.expected || file.dtype == buffer.dtype)) continue;
    return absl::InvalidArgumentError(absl::StrCat("the file of buffer '", buffer.name, "' has ",
                                                   file.elements.size(), " bytes of ",
                                                   ToText(file.dtype), ", which do not fit it"));
  }
  return absl::OkStatus();
}

absl::Status CheckCount(const BufferPlan& buffer) {
  if (buffer.count >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("buffer '", buffer.name, "' has ", buffer.count, " elements"));
}

// Computed in long doubles, whose exponents suffice for the scaled sums.
long double RootOf(const SquareSum& sum) {
  constexpr long double kGrow = static_cast<long double>(SquareSum::kGrow);
  return sqrtl(static_cast<long double>(sum.large) * kGrow * kGrow + sum.medium +
               static_cast<long double>(sum.small) / kGrow / kGrow);
}

}  // namespace

bool IsChecked(Role role) { return role == Role::kOutput || role == Role::kInOut; }

bool IsFilled(Role role) { return role == Role::kInput || role == Role::kInOut; }

unsigned char PoisonByte(DType dtype) {
  return IsFloat(dtype) ? 0xff : 0xa5;  // all ones is a NaN in every format
}

size_t DataBytes(const BufferPlan& buffer) {
  return static_cast<size_t>(buffer.count) * static_cast<size_t>(SizeInBytes(buffer.dtype));
}

TolerancePlan ToleranceFor(const ProblemPlan& plan, const BufferPlan& buffer) {
  for (const auto& [of, tolerance] : plan.buffer_tolerances) {
    if (of == buffer.name) return tolerance;
  }
  for (const auto& [of, tolerance] : plan.tolerances) {
    if (of == buffer.dtype) return tolerance;
  }
  return {};
}

const BufferFile* FileOf(const ProblemPlan& plan, const std::string& buffer, bool expected) {
  for (const BufferFile& file : plan.files) {
    if (file.buffer == buffer && file.expected == expected) return &file;
  }
  return nullptr;
}

absl::StatusOr<double> BytesNeeded(const ProblemPlan& plan) {
  if (plan.reference.steps.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a reference of ", plan.reference.steps.size(), " steps, not of one"));
  }
  if (plan.checker.steps.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a checker of ", plan.checker.steps.size(), " steps, not of one"));
  }
  double needed = 0;
  for (const BufferPlan& buffer : plan.buffers) {
    RETURN_IF_ERROR(CheckCount(buffer));
    RETURN_IF_ERROR(CheckFiles(plan, buffer));
    const double count = static_cast<double>(buffer.count);
    const double bytes = count * static_cast<double>(SizeInBytes(buffer.dtype));
    needed += bytes * (buffer.role == Role::kInOut ? 2 : 1);
    if (!IsChecked(buffer.role)) continue;
    const BufferPlan* reference = FindReferenceArg(plan, buffer.name);
    needed +=
        count * (reference == nullptr ? 8.0 : static_cast<double>(SizeInBytes(reference->dtype)));
  }
  return needed;
}

absl::StatusOr<BufferPlan> ReferenceBuffer(const ProblemPlan& plan, const BufferPlan& buffer) {
  const BufferPlan* reference = FindReferenceArg(plan, buffer.name);
  if (reference == nullptr || reference->count != buffer.count) {
    return absl::InvalidArgumentError(absl::StrCat("the reference does not have buffer '",
                                                   buffer.name, "' with as many elements"));
  }
  const bool widened = buffer.role == Role::kInOut && reference->dtype != buffer.dtype;
  if (widened && reference->dtype != DType::kF32 && reference->dtype != DType::kF64) {
    return absl::InvalidArgumentError(
        absl::StrCat("the reference takes '", buffer.name, "' as ", ToText(reference->dtype),
                     "; of a ", ToText(buffer.dtype), " it can only be f32 or f64"));
  }
  return *reference;
}

absl::Status CheckWanted(const BufferPlan& wanted, const BufferPlan* of_problem) {
  RETURN_IF_ERROR(CheckCount(wanted));
  if (wanted.role == Role::kScratch) {
    // The problem may have none: scratch is a variant's own.
    if (of_problem == nullptr || of_problem->role == Role::kScratch) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("buffer '", wanted.name, "' is not scratch in the problem"));
  }
  if (of_problem != nullptr && of_problem->dtype == wanted.dtype &&
      of_problem->count == wanted.count && of_problem->role == wanted.role) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("buffer '", wanted.name, "' of ", wanted.count,
                                                 " ", ToText(wanted.dtype),
                                                 " is not as the problem has it"));
}

double RelativeNorm(const CompareResult& compare) {
  const long double error = RootOf(compare.errors);
  if (error == 0) return 0;
  const long double reference = RootOf(compare.references);
  if (std::isinf(error) || reference == 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(error / reference);
}

void OutputJudge::Add(const BufferPlan& buffer, const TolerancePlan& tolerance,
                      const CompareResult& compare, Verdict& verdict) {
  ResultError& error = verdict.error;
  const std::string element = absl::StrCat(buffer.name, "[", compare.worst_index, "]");
  if (all_.count == 0 || compare.worst_excess > all_.worst_excess) {
    error.worst = absl::StrFormat("%s: %.9g, reference %.9g", element, compare.worst_value,
                                  compare.worst_reference);
  }
  Merge(compare, all_);
  error.max_abs = all_.max_abs;
  error.max_rel = all_.max_rel;
  error.bad_elements = all_.bad;
  error.relative_l2 = RelativeNorm(all_);
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

}  // namespace tune
