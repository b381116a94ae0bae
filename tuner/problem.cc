// SPDX-License-Identifier: Apache-2.0
#include "tuner/problem.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tune {
namespace {

struct DTypeTraits {
  DType dtype;
  const char* text;
  const char* cpp_name;
  int64_t bytes;
};

constexpr std::array<DTypeTraits, 14> kDTypes = {{
    {DType::kF64, "f64", "double", 8},
    {DType::kF32, "f32", "float", 4},
    {DType::kF16, "f16", "__half", 2},
    {DType::kBF16, "bf16", "__nv_bfloat16", 2},
    {DType::kI8, "i8", "signed char", 1},
    {DType::kU8, "u8", "unsigned char", 1},
    {DType::kI32, "i32", "int", 4},
    {DType::kU32, "u32", "unsigned int", 4},
    {DType::kI64, "i64", "long long", 8},
    {DType::kE4M3, "e4m3", "__nv_fp8_e4m3", 1},
    {DType::kI16, "i16", "short", 2},
    {DType::kU16, "u16", "unsigned short", 2},
    {DType::kU64, "u64", "unsigned long long", 8},
    {DType::kBool, "bool", "bool", 1},
}};

const DTypeTraits& TraitsOf(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }

}  // namespace

int64_t SizeInBytes(DType dtype) { return TraitsOf(dtype).bytes; }

bool IsFloat(DType dtype) { return dtype <= DType::kBF16 || dtype == DType::kE4M3; }

std::string ToText(DType dtype) { return TraitsOf(dtype).text; }

std::string CppName(DType dtype) { return TraitsOf(dtype).cpp_name; }

absl::StatusOr<DType> ParseDType(const std::string& text) {
  for (const DTypeTraits& traits : kDTypes) {
    if (text == traits.text) return traits.dtype;
  }
  std::string known = absl::StrJoin(kDTypes, ", ", [](std::string* out, const DTypeTraits& traits) {
    absl::StrAppend(out, traits.text);
  });
  return absl::InvalidArgumentError(absl::StrCat("unknown data type '", text, "'; known: ", known));
}

std::string ToText(const Problem& problem) {
  std::string dims = absl::StrJoin(problem.dims, " ", absl::PairFormatter("="));
  return absl::StrCat(dims, dims.empty() ? "" : " ", ToText(problem.dtype));
}

}  // namespace tune
