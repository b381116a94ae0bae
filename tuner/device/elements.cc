// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/elements.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "tuner/device/fill.h"
#include "tuner/narrow_floats.h"

namespace tune {
namespace {

constexpr int64_t kPiece = 512;

float Bfloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

float E4m3ToFloat(uint8_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80u) << 24;
  const uint32_t rest = bits & 0x7fu;
  if (rest == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
  // Moves the exponent by 120 exactly, and makes subnormal numbers normal.
  const float scaled = std::bit_cast<float>(rest << 20) * 0x1p120f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
}

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t rest = static_cast<uint32_t>(half & 0x7fffu) << 13;
  if ((half & 0x7c00u) == 0x7c00u) return std::bit_cast<float>(sign | rest | 0x7f800000u);
  // Moves the exponent by 112 exactly, and makes subnormal numbers normal.
  const float scaled = std::bit_cast<float>(rest) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
}

template <class T>
void Load(const void* data, int64_t begin, int64_t end, double* values) {
  const T* typed = static_cast<const T*>(data) + begin;
  for (int64_t i = 0; i < end - begin; ++i) values[i] = static_cast<double>(typed[i]);
}

[[gnu::always_inline]] inline void FillPieceBody(const Fill& fill, uint64_t key, int64_t begin,
                                                 int64_t end, float* values) {
  const int kind = static_cast<int>(fill.kind);
  const float low = static_cast<float>(fill.low);
  const float high = static_cast<float>(fill.high);
  for (int64_t i = begin; i < end; ++i) {
    values[i - begin] = FillFloat(kind, low, high, key, static_cast<unsigned long long>(i));
  }
}

using FillPiece = void (*)(const Fill& fill, uint64_t key, int64_t begin, int64_t end,
                           float* values);

void FillPieceAnywhere(const Fill& fill, uint64_t key, int64_t begin, int64_t end, float* values) {
  FillPieceBody(fill, key, begin, end, values);
}
#if defined(__x86_64__)
// Gives the same numbers, since fill.h spells out its multiply-adds, without a call for each of
// them.
__attribute__((target("avx2,fma"))) void FillPieceWithFma(const Fill& fill, uint64_t key,
                                                          int64_t begin, int64_t end,
                                                          float* values) {
  FillPieceBody(fill, key, begin, end, values);
}
#endif

FillPiece ChooseFillPiece() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &FillPieceWithFma;
#endif
  return &FillPieceAnywhere;
}

template <class T, class Convert>
void FillFloats(const Fill& fill, uint64_t key, int64_t begin, int64_t end, void* data,
                Convert convert) {
  static const FillPiece fill_piece = ChooseFillPiece();
  std::array<float, kPiece> values;
  for (int64_t first = begin; first < end; first += kPiece) {
    const int64_t last = std::min(end, first + kPiece);
    fill_piece(fill, key, first, last, values.data());
    for (int64_t i = first; i < last; ++i) {
      static_cast<T*>(data)[i] = convert(values[static_cast<size_t>(i - first)]);
    }
  }
}

template <class T>
void FillIntegers(const Fill& fill, uint64_t key, int64_t begin, int64_t end, void* data) {
  const int kind = static_cast<int>(fill.kind);
  const auto low = static_cast<long long>(fill.low);
  const auto high = static_cast<long long>(fill.high);
  for (int64_t i = begin; i < end; ++i) {
    static_cast<T*>(data)[i] =
        static_cast<T>(FillInteger(kind, low, high, key, static_cast<unsigned long long>(i)));
  }
}

}  // namespace

void LoadElements(DType dtype, const void* data, int64_t begin, int64_t end, double* values) {
  const auto* halves = static_cast<const uint16_t*>(data) + begin;
  switch (dtype) {
    case DType::kF64:
      return Load<double>(data, begin, end, values);
    case DType::kF32:
      return Load<float>(data, begin, end, values);
    case DType::kF16:
      for (int64_t i = 0; i < end - begin; ++i) values[i] = HalfToFloat(halves[i]);
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < end - begin; ++i) values[i] = Bfloat16ToFloat(halves[i]);
      return;
    case DType::kI8:
      return Load<int8_t>(data, begin, end, values);
    case DType::kU8:
      return Load<uint8_t>(data, begin, end, values);
    case DType::kI32:
      return Load<int32_t>(data, begin, end, values);
    case DType::kU32:
      return Load<uint32_t>(data, begin, end, values);
    case DType::kI64:
      return Load<int64_t>(data, begin, end, values);
    case DType::kI16:
      return Load<int16_t>(data, begin, end, values);
    case DType::kU16:
      return Load<uint16_t>(data, begin, end, values);
    case DType::kU64:
      return Load<uint64_t>(data, begin, end, values);
    case DType::kBool:
      return Load<uint8_t>(data, begin, end, values);
    case DType::kE4M3:
      for (int64_t i = begin; i < end; ++i) {
        values[i - begin] = E4m3ToFloat(static_cast<const uint8_t*>(data)[i]);
      }
      return;
  }
}

void FillElements(DType dtype, const Fill& fill, uint64_t key, int64_t begin, int64_t end,
                  void* data) {
  switch (dtype) {
    case DType::kF64:
      return FillFloats<double>(fill, key, begin, end, data, [](float v) { return double{v}; });
    case DType::kF32:
      return FillFloats<float>(fill, key, begin, end, data, [](float v) { return v; });
    case DType::kF16:
      return FillFloats<uint16_t>(fill, key, begin, end, data, FloatToHalf);
    case DType::kBF16:
      return FillFloats<uint16_t>(fill, key, begin, end, data, FloatToBfloat16);
    case DType::kI8:
    case DType::kU8:
      return FillIntegers<uint8_t>(fill, key, begin, end, data);
    case DType::kI32:
    case DType::kU32:
      return FillIntegers<uint32_t>(fill, key, begin, end, data);
    case DType::kI64:
    case DType::kU64:
      return FillIntegers<uint64_t>(fill, key, begin, end, data);
    case DType::kI16:
    case DType::kU16:
      return FillIntegers<uint16_t>(fill, key, begin, end, data);
    case DType::kBool:
      return FillIntegers<bool>(fill, key, begin, end, data);
    case DType::kE4M3:
      return FillFloats<uint8_t>(fill, key, begin, end, data, FloatToE4m3);
  }
}

void WidenElements(DType from, const void* in, DType to, void* out, int64_t begin, int64_t end) {
  std::array<double, kPiece> values;
  for (int64_t first = begin; first < end; first += kPiece) {
    const int64_t last = std::min(end, first + kPiece);
    LoadElements(from, in, first, last, values.data());
    for (int64_t i = first; i < last; ++i) {
      const double value = values[static_cast<size_t>(i - first)];
      if (to == DType::kF64) static_cast<double*>(out)[i] = value;
      if (to == DType::kF32) static_cast<float*>(out)[i] = static_cast<float>(value);
    }
  }
}

}  // namespace tune
