// SPDX-License-Identifier: Apache-2.0
// Floating-point types that C++ lacks, as their bits.
#pragma once

#include <bit>
#include <cstdint>

namespace tune {

// Rounds to nearest even. Fills hold no NaN.
inline uint16_t FloatToBfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Rounds to nearest even.
inline uint16_t FloatToHalf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t size = bits & 0x7fffffffu;
  if (size >= 0x47800000u) {  // 65536 and above
    return static_cast<uint16_t>(sign | (size > 0x7f800000u ? 0x7e00u : 0x7c00u));
  }
  if (size < 0x38800000u) {  // subnormal: an addition shifts and rounds
    const float shifted = std::bit_cast<float>(size) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = size + 0xfffu + ((size >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

// Rounds to nearest even; what is too large becomes the largest number, 448.
inline uint8_t FloatToE4m3(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint8_t>((bits >> 24) & 0x80u);
  const uint32_t size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  if (size >= 0x43e00000u) return static_cast<uint8_t>(sign | 0x7eu);  // 448 and above
  if (size < 0x3c800000u) {  // subnormal: an addition shifts and rounds
    const float shifted = std::bit_cast<float>(size) + 16384.0f;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x46800000u));
  }
  const uint32_t rounded = size + 0x7ffffu + ((size >> 20) & 1u);
  return static_cast<uint8_t>(sign | ((rounded - 0x3c000000u) >> 20));
}

}  // namespace tune
