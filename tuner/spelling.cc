// SPDX-License-Identifier: Apache-2.0
#include "tuner/spelling.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tuner/device_profile.h"

namespace tune {

std::string SpecDType(absl::string_view text) {
  static constexpr std::pair<absl::string_view, absl::string_view> kNames[] = {
      {"float64", "f64"}, {"double", "f64"}, {"float32", "f32"},   {"float", "f32"},
      {"float16", "f16"}, {"half", "f16"},   {"bfloat16", "bf16"}, {"int64", "i64"},
      {"int32", "i32"},   {"int16", "i16"},  {"int8", "i8"},       {"uint64", "u64"},
      {"uint32", "u32"},  {"uint16", "u16"}, {"uint8", "u8"},      {"float8_e4m3fn", "e4m3"}};
  absl::string_view name = text;
  absl::ConsumePrefix(&name, "torch.");
  for (const auto& [known, dtype] : kNames) {
    if (name == known) return std::string(dtype);
  }
  return std::string(text);
}

std::string DeviceIdOf(absl::string_view text) {
  const absl::string_view family = text.substr(0, text.find(':'));
  const absl::string_view rest = text.substr(family.size());
  const bool is_index = rest.empty() || rest.find_first_not_of("0123456789", 1) == rest.npos;
  for (const DeviceProfile* profile : DeviceProfiles()) {
    if (is_index && absl::EqualsIgnoreCase(family, profile->family)) {
      return absl::StrCat(profile->family, rest);
    }
  }
  return std::string(text);
}

}  // namespace tune
