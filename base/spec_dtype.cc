// SPDX-License-Identifier: Apache-2.0
#include "base/spec_dtype.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace tune {

std::string SpecDType(absl::string_view text) {
  static constexpr std::pair<absl::string_view, absl::string_view> kNames[] = {
      {"float64", "f64"},   {"double", "f64"},         {"fp64", "f64"},
      {"float32", "f32"},   {"float", "f32"},          {"fp32", "f32"},
      {"float16", "f16"},   {"half", "f16"},           {"fp16", "f16"},
      {"bfloat16", "bf16"}, {"float8_e4m3fn", "e4m3"}, {"int64", "i64"},
      {"int32", "i32"},     {"int16", "i16"},          {"int8", "i8"},
      {"uint64", "u64"},    {"uint32", "u32"},         {"uint16", "u16"},
      {"uint8", "u8"},      {"bool_", "bool"},         {"bool", "bool"}};
  std::string name = absl::AsciiStrToLower(text);
  if (absl::StartsWith(name, "torch.")) name.erase(0, sizeof("torch.") - 1);
  for (const auto& [known, dtype] : kNames) {
    if (name == known || name == dtype) return std::string(dtype);
  }
  return std::string(text);
}

}  // namespace tune
