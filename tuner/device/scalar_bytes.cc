// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/scalar_bytes.h"

#include <cstring>
#include <string>
#include <type_traits>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tuner/narrow_floats.h"

namespace tune {
namespace {

// A value of another kind is converted as C++ does.
template <class T>
size_t Store(const Value& value, unsigned char* bytes) {
  T converted = {};
  std::visit(
      [&converted](const auto& held) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(held)>, std::string>) {
          converted = static_cast<T>(held);
        }
      },
      value);
  std::memcpy(bytes, &converted, sizeof(converted));
  return sizeof(converted);
}

size_t StoreBits(uint16_t bits, unsigned char* bytes) {
  std::memcpy(bytes, &bits, sizeof(bits));
  return sizeof(bits);
}

float AsFloat(const Value& value) {
  float number = 0;
  Store<float>(value, reinterpret_cast<unsigned char*>(&number));
  return number;
}

}  // namespace

absl::StatusOr<size_t> StoreScalar(const ScalarPlan& scalar, unsigned char* bytes) {
  if (!std::holds_alternative<std::string>(scalar.value)) {
    switch (scalar.dtype) {
      case DType::kF64:
        return Store<double>(scalar.value, bytes);
      case DType::kF32:
        return Store<float>(scalar.value, bytes);
      case DType::kI8:
        return Store<int8_t>(scalar.value, bytes);
      case DType::kU8:
        return Store<uint8_t>(scalar.value, bytes);
      case DType::kI32:
        return Store<int32_t>(scalar.value, bytes);
      case DType::kU32:
        return Store<uint32_t>(scalar.value, bytes);
      case DType::kI64:
        return Store<int64_t>(scalar.value, bytes);
      case DType::kI16:
        return Store<int16_t>(scalar.value, bytes);
      case DType::kU16:
        return Store<uint16_t>(scalar.value, bytes);
      case DType::kU64:
        return Store<uint64_t>(scalar.value, bytes);
      case DType::kBool:
        return Store<bool>(scalar.value, bytes);
      case DType::kF16:
        return StoreBits(FloatToHalf(AsFloat(scalar.value)), bytes);
      case DType::kBF16:
        return StoreBits(FloatToBfloat16(AsFloat(scalar.value)), bytes);
      case DType::kE4M3:
        break;
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "scalar '", scalar.name, "' cannot be ", ToText(scalar.dtype), " ", ToText(scalar.value)));
}

}  // namespace tune
