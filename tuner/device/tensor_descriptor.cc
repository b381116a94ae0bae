// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/tensor_descriptor.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace tune {
namespace {

constexpr int kL2PromotionBytes = 128;  // as Triton's own launcher has it

// In elements: rows lie one behind the other.
std::vector<int64_t> StridesOf(const BufferPlan& buffer) {
  std::vector<int64_t> strides(buffer.shape.size(), 1);
  for (size_t i = strides.size(); i-- > 1;) strides[i - 1] = strides[i] * buffer.shape[i];
  return strides;
}

TensorMapPlan MapOf(const BufferPlan& buffer) {
  TensorMapPlan map = {.name = buffer.name,
                       .buffer = buffer,
                       .dims = {buffer.shape.rbegin(), buffer.shape.rend()},
                       .l2_promotion_bytes = kL2PromotionBytes,
                       .nan_padding = buffer.nan_padding};
  const std::vector<int64_t> strides = StridesOf(buffer);
  for (size_t i = strides.size(); i-- > 1;) {
    map.strides_bytes.push_back(strides[i - 1] * SizeInBytes(buffer.dtype));
  }
  return map;
}

DType TypeOfNumber(const ParameterFact& parameter) {
  if (parameter.bytes == 1) return DType::kU8;
  return parameter.bytes == SizeInBytes(DType::kI32) ? DType::kI32 : DType::kI64;
}

// The arg that has the parameter's name. A part of a descriptor (its name has a dot) may be taken
// twice, in two widths.
ArgPlan Whole(const ArgPlan& arg, const ParameterFact& parameter) {
  if (const auto* scalar = std::get_if<ScalarPlan>(&arg)) {
    const bool is_part = scalar->name.find('.') != std::string::npos;
    const DType dtype = is_part ? TypeOfNumber(parameter) : scalar->dtype;
    return ScalarPlan{scalar->name, dtype, scalar->value};
  }
  const auto* buffer = std::get_if<BufferPlan>(&arg);
  const auto* known = std::get_if<TensorMapPlan>(&arg);
  if (parameter.box.empty()) {
    ArgPlan whole = arg;
    if (buffer != nullptr) std::get<BufferPlan>(whole).block_shape.clear();
    return whole;
  }
  TensorMapPlan map = known != nullptr ? *known : MapOf(*buffer);
  map.box = {parameter.box.rbegin(), parameter.box.rend()};
  map.swizzle_bytes = parameter.swizzle_bytes;
  return map;
}

// Name and value of each.
std::vector<std::pair<std::string, int64_t>> NumbersOf(const BufferPlan& buffer) {
  std::vector<std::pair<std::string, int64_t>> numbers = {
      {absl::StrCat(buffer.name, ".nan_padding"), buffer.nan_padding ? 1 : 0},
      {absl::StrCat(buffer.name, ".round_f32_to_tf32"), 0}};
  const std::vector<int64_t> strides = StridesOf(buffer);
  for (size_t i = 0; i < strides.size(); ++i) {
    numbers.emplace_back(absl::StrCat(buffer.name, ".shape[", i, "]"), buffer.shape[i]);
    numbers.emplace_back(absl::StrCat(buffer.name, ".strides[", i, "]"), strides[i]);
  }
  return numbers;
}

}  // namespace

absl::StatusOr<ArgPlan> ArgOfParameter(const std::vector<ArgPlan>& args,
                                       const ParameterFact& parameter) {
  for (const ArgPlan& arg : args) {
    const std::string& name =
        std::visit([](const auto& held) -> const std::string& { return held.name; }, arg);
    if (name == parameter.name) return Whole(arg, parameter);
  }
  for (const ArgPlan& arg : args) {
    const auto* buffer = std::get_if<BufferPlan>(&arg);
    if (buffer == nullptr || buffer->block_shape.empty()) continue;
    for (const auto& [name, value] : NumbersOf(*buffer)) {
      if (name == parameter.name) return ScalarPlan{name, TypeOfNumber(parameter), value};
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a parameter '", parameter.name, "', which no arg of the spec is called"));
}

}  // namespace tune
