// SPDX-License-Identifier: Apache-2.0
// A problem: the concrete sizes and data type a kernel runs on.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fields.h"

namespace tune {

// e4m3 has 4 bits of exponent, 3 of mantissa and no infinities; its largest number is 448.
enum class DType {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI8,
  kU8,
  kI32,
  kU32,
  kI64,
  kE4M3,
  kI16,
  kU16,
  kU64,
  kBool,
};

int64_t SizeInBytes(DType dtype);
bool IsFloat(DType dtype);
// "f32", "bf16", ...
std::string ToText(DType dtype);
// INVALID_ARGUMENT names the known types.
absl::StatusOr<DType> ParseDType(const std::string& text);
// The C++ type a kernel sees: "float", "__nv_bfloat16", ...
std::string CppName(DType dtype);

// How a dim of a problem must match that of a record.
enum class DimMatch {
  kNearest,   // any value may answer, the nearest first
  kExact,     // only the same value
  kBucketed,  // the same up to the next power of two counts as a hit
  kIgnored,   // does not matter
};

struct Problem {
  // In the spec's order, every dim of the spec.
  std::vector<std::pair<std::string, int64_t>> dims;
  DType dtype = DType::kF32;

  friend bool operator==(const Problem&, const Problem&) = default;
};
TUNE_FIELDS(Problem, dims, dtype);

// "rows=8192 cols=4096 bf16": canonical.
std::string ToText(const Problem& problem);

}  // namespace tune
