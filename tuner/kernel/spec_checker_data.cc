// SPDX-License-Identifier: Apache-2.0
// The third part of SpecChecker: what buffers hold, and what results are held to.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/kernel/spec_checker.h"
#include "tuner/problem.h"

namespace tune {
namespace {

bool IsChecked(const BufferSpec& buffer) {
  return buffer.role == Role::kOutput || buffer.role == Role::kInOut;
}

Fill::Kind KindOf(const ArgSpec& arg) {
  const bool is_filled = arg.buffer.has_value() && arg.buffer->fill.has_value();
  return is_filled ? arg.buffer->fill->kind : Fill::Kind{};
}

bool IsSparse(const FillSpec& fill) {
  return fill.kind == Fill::Kind::kCsrOffsets || fill.kind == Fill::Kind::kCsrColumns;
}

}  // namespace

absl::Status SpecChecker::CheckFill(const BufferSpec& buffer, const SpecPlace& place,
                                    ParsedArg* parsed) {
  RETURN_IF_ERROR(CheckFillBounds(*buffer.fill, place, parsed));
  if (!buffer.fill->columns.empty()) {
    ASSIGN_OR_RETURN(parsed->fill_columns,
                     Parse(place, "columns", -1, buffer.fill->columns, problem_names_));
  }
  RETURN_IF_ERROR(CheckOffsetsFill(buffer, place, parsed));
  return CheckMatrixFill(buffer, place);
}

absl::Status SpecChecker::CheckOffsetsFill(const BufferSpec& buffer, const SpecPlace& place,
                                           ParsedArg* parsed) {
  const FillSpec& fill = *buffer.fill;
  if (fill.kind != Fill::Kind::kOffsets) {
    if (fill.lengths.empty()) return absl::OkStatus();
    return place.Error("lengths", "only the fill OFFSETS takes it");
  }
  if (fill.lengths.empty()) {
    return place.Error("lengths", "an expression is needed: the list of the pieces' lengths");
  }
  ASSIGN_OR_RETURN(parsed->fill_lengths, Parse(place, "lengths", -1, fill.lengths, problem_names_));
  return absl::OkStatus();
}

absl::Status SpecChecker::CheckFillBounds(const FillSpec& fill, const SpecPlace& place,
                                          ParsedArg* parsed) {
  if (!std::isfinite(fill.low)) return place.Error("low", "not a finite number");
  if (!std::isfinite(fill.high)) return place.Error("high", "not a finite number");
  if (!fill.low_expression.empty()) {
    if (fill.low != 0) return place.Error("low", "low_expression is there, too: give one");
    ASSIGN_OR_RETURN(parsed->fill_low,
                     Parse(place, "low_expression", -1, fill.low_expression, problem_names_));
  }
  if (!fill.high_expression.empty()) {
    if (fill.high != 0) return place.Error("high", "high_expression is there, too: give one");
    ASSIGN_OR_RETURN(parsed->fill_high,
                     Parse(place, "high_expression", -1, fill.high_expression, problem_names_));
  }
  const bool computed = parsed->fill_low.has_value() || parsed->fill_high.has_value();
  const bool given = fill.low != 0 || fill.high != 0;
  if (fill.kind == Fill::Kind::kUniform && given && !computed && fill.low >= fill.high) {
    return place.Error("high", "low must be below high");
  }
  if (fill.kind == Fill::Kind::kNormal && fill.high < 0) {
    return place.Error("high", "the standard deviation is below zero");
  }
  return absl::OkStatus();
}

absl::Status SpecChecker::CheckMatrixFill(const BufferSpec& buffer, const SpecPlace& place) {
  const FillSpec& fill = *buffer.fill;
  const bool triangular =
      fill.kind == Fill::Kind::kLowerTriangular || fill.kind == Fill::Kind::kUpperTriangular;
  if (triangular && buffer.shape.size() < 2) {
    return place.Error("kind", "a triangular matrix is the last two dimensions of a shape");
  }
  if (!IsSparse(fill)) {
    if (fill.columns.empty() && fill.offsets.empty()) return absl::OkStatus();
    return place.Error(fill.columns.empty() ? "offsets" : "columns",
                       "only fills CSR_OFFSETS and CSR_COLUMNS take it");
  }
  if (fill.columns.empty()) {
    return place.Error("columns", "an expression is needed: the columns of the matrix");
  }
  if (fill.kind == Fill::Kind::kCsrOffsets) {
    if (fill.high > 0 || !fill.high_expression.empty()) return absl::OkStatus();
    return place.Error("high", "the number of nonzeros is needed, as high or high_expression");
  }
  const std::optional<size_t> offsets = FindArg(spec_, fill.offsets);
  if (offsets.has_value() && KindOf(spec_.args[*offsets]) == Fill::Kind::kCsrOffsets) {
    return absl::OkStatus();
  }
  return place.Error("offsets", absl::StrCat("no buffer '", fill.offsets,
                                             "' has the fill CSR_OFFSETS: name the one with the ",
                                             "offsets of these columns"));
}

absl::Status SpecChecker::CheckDataFiles(const BufferSpec& buffer, const SpecPlace& place) {
  const bool filled = buffer.role == Role::kInput || buffer.role == Role::kInOut;
  if (!buffer.file.empty()) {
    if (!filled) return place.Error("file", "only an INPUT or INOUT is filled");
    if (buffer.fill.has_value()) return place.Error("file", "fill is there, too: give one");
    RETURN_IF_ERROR(CheckDataFile(place, "file", buffer.file));
  }
  if (buffer.expected.empty()) return absl::OkStatus();
  if (!IsChecked(buffer)) return place.Error("expected", "only an OUTPUT or INOUT is compared");
  return CheckDataFile(place, "expected", buffer.expected);
}

absl::Status SpecChecker::CheckDataFile(const SpecPlace& place, const char* field,
                                        const std::string& name) {
  parsed_.data_files.insert(name);
  if (parsed_.files.count(name) > 0) return absl::OkStatus();
  return CheckFile(place, field, -1, name, Language::kCubin);  // which is no text either
}

// Checks a spec without a reference.
absl::Status SpecChecker::CheckExpected() const {
  if (spec_.checker.has_value()) return absl::OkStatus();
  for (const ArgSpec& arg : spec_.args) {
    if (!arg.buffer.has_value() || !IsChecked(*arg.buffer) || !arg.buffer->expected.empty())
      continue;
    return root_.Error("reference",
                       absl::StrCat("missing: results are checked against it; or give a file with ",
                                    "what is right of '", arg.name,
                                    "', and of every other output, as `expected`; or a checker"));
  }
  return absl::OkStatus();
}

absl::Status SpecChecker::CheckTolerances() {
  Names seen;
  for (int i = 0; i < std::ssize(spec_.tolerances); ++i) {
    const ToleranceSpec& tolerance = spec_.tolerances[i];
    const SpecPlace place = root_.Nested("tolerances", i);
    RETURN_IF_ERROR(CheckTolerance(tolerance, place));
    const bool of_arg = !tolerance.arg.empty();
    const std::string& of = of_arg ? tolerance.arg : tolerance.dtype;
    if (!seen.insert(absl::StrCat(of_arg ? "arg " : "", of, " ", tolerance.when)).second) {
      return place.Error(of_arg ? "arg" : "dtype", absl::StrCat("'", of, "' is there twice"));
    }
    std::optional<Expression>& when = parsed_.tolerances.emplace_back();
    if (tolerance.when.empty()) continue;
    ASSIGN_OR_RETURN(when, Parse(place, "when", -1, tolerance.when, problem_names_));
  }
  return absl::OkStatus();
}

absl::Status SpecChecker::CheckTolerance(const ToleranceSpec& tolerance,
                                         const SpecPlace& place) const {
  if (!tolerance.arg.empty()) {
    if (!tolerance.dtype.empty()) return place.Error("dtype", "arg is there, too: give one");
    const bool found = std::any_of(spec_.args.begin(), spec_.args.end(), [&](const auto& arg) {
      return arg.name == tolerance.arg && arg.buffer.has_value() && IsChecked(*arg.buffer);
    });
    if (!found) {
      return place.Error("arg",
                         absl::StrCat("no OUTPUT or INOUT buffer is called '", tolerance.arg, "'"));
    }
  } else if (const absl::StatusOr<DType> dtype = ParseDType(tolerance.dtype); !dtype.ok()) {
    return place.Error("dtype", dtype.status().message());
  }
  if (!(tolerance.rtol >= 0 && tolerance.rtol <= 1)) {
    return place.Error("rtol", "not within 0 and 1");
  }
  if (!(tolerance.atol >= 0 && std::isfinite(tolerance.atol))) {
    return place.Error("atol", "not a finite number of zero or more");
  }
  if (!(tolerance.relative_norm >= 0 && tolerance.relative_norm <= 1)) {
    return place.Error("relative_norm", "not within 0 and 1");
  }
  if (!(tolerance.mismatches >= 0 && tolerance.mismatches < 1)) {
    return place.Error("mismatches", "a share of elements: not within 0 and 1");
  }
  return absl::OkStatus();
}

}  // namespace tune
