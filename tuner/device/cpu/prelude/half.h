// SPDX-License-Identifier: Apache-2.0
// __half, __nv_bfloat16 and their pairs, with the conversions and arithmetic of cuda_fp16.h and
// cuda_bf16.h, and __nv_fp8_e4m3 of cuda_fp8.h, which has conversions alone. Everything rounds to
// nearest even; arithmetic is that of float (of double for fused multiply-adds), rounded once more,
// which for these widths gives the correctly rounded result.
#pragma once

#include "functions.h"
#include "launch.h"
#include "sync.h"
#include "vectors.h"

namespace tune_cpu {

// Conversions of half in integer arithmetic and without branches: loops over them are vectorised,
// which compilers of today do not manage for their own 16-bit type.
TUNE_CPU_INLINE float HalfToFloat(unsigned short bits) {
  const unsigned magnitude = bits & 0x7fffu;
  // The exponent of float has 112 more; a product gets subnormal numbers right as well.
  const float finite = __builtin_bit_cast(float, magnitude << 13) * 0x1p112f;
  const unsigned special = (magnitude << 13) | 0x7f800000u;
  const unsigned value =
      magnitude >= 0x7c00u ? special : __builtin_bit_cast(unsigned, finite);
  return __builtin_bit_cast(float, value | (static_cast<unsigned>(bits & 0x8000u) << 16));
}
// NaN becomes 0x7fff, as on the GPU.
TUNE_CPU_INLINE unsigned short FloatToHalf(float value) {
  const unsigned bits = __builtin_bit_cast(unsigned, value);
  const unsigned magnitude = bits & 0x7fffffffu;
  const unsigned sign = (bits >> 16) & 0x8000u;
  // Below 2^-14 the sum with 0.5 has the subnormal's unit in its last place, and rounds for us.
  const float sum = __builtin_bit_cast(float, magnitude) + 0.5f;
  const unsigned subnormal = __builtin_bit_cast(unsigned, sum) - 0x3f000000u;
  const unsigned normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const unsigned finite = magnitude < 0x38800000u ? subnormal : normal;
  const unsigned rounded = magnitude >= 0x477ff000u ? 0x7c00u : finite;
  const unsigned result = magnitude > 0x7f800000u ? 0x7fffu : sign | rounded;
  return static_cast<unsigned short>(result);
}

TUNE_CPU_INLINE float BFloatToFloat(unsigned short bits) {
  return __builtin_bit_cast(float, static_cast<unsigned>(bits) << 16);
}
// NaN becomes 0x7fff, as on the GPU.
TUNE_CPU_INLINE unsigned short FloatToBFloat(float value) {
  const unsigned bits = __builtin_bit_cast(unsigned, value);
  const unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<unsigned short>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded);
}
TUNE_CPU_INLINE float E4m3ToFloat(unsigned char bits) {
  const unsigned magnitude = bits & 0x7fu;
  const float finite = __builtin_bit_cast(float, magnitude << 20) * 0x1p120f;
  const unsigned value = magnitude == 0x7fu ? 0x7fc00000u : __builtin_bit_cast(unsigned, finite);
  return __builtin_bit_cast(float, value | (static_cast<unsigned>(bits & 0x80u) << 24));
}
// A value that is too large becomes the largest number, 448, and NaN becomes 0x7f, as on the GPU.
TUNE_CPU_INLINE unsigned char FloatToE4m3(float value) {
  const unsigned bits = __builtin_bit_cast(unsigned, value);
  const unsigned magnitude = bits & 0x7fffffffu;
  const unsigned sign = (bits >> 24) & 0x80u;
  // Below 2^-6 the sum with 2^14 has the subnormal's unit in its last place, and rounds for us.
  const float sum = __builtin_bit_cast(float, magnitude) + 16384.0f;
  const unsigned subnormal = __builtin_bit_cast(unsigned, sum) - 0x46800000u;
  const unsigned normal = (magnitude - (120u << 23) + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20;
  const unsigned finite = magnitude < 0x3c800000u ? subnormal : normal;
  const unsigned rounded = magnitude >= 0x43e00000u ? 0x7eu : finite;
  return static_cast<unsigned char>(magnitude > 0x7f800000u ? 0x7fu : sign | rounded);
}
// Rounding to odd first keeps the second rounding from going wrong.
TUNE_CPU_INLINE float DoubleToOddFloat(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  if (back == value || value != value || nearest - nearest != 0.0f) return nearest;
  unsigned bits = __builtin_bit_cast(unsigned, nearest);
  if ((bits & 1u) != 0) return nearest;
  const bool away = (value < 0 ? -back : back) > (value < 0 ? -value : value);
  return __builtin_bit_cast(float, away ? bits - 1u : bits + 1u);
}

}  // namespace tune_cpu

struct __half {
  unsigned short bits;

  __half() = default;
  TUNE_CPU_MEMBER __half(float v) : bits(tune_cpu::FloatToHalf(v)) {}
  TUNE_CPU_MEMBER __half(double v) : bits(tune_cpu::FloatToHalf(tune_cpu::DoubleToOddFloat(v))) {}
  TUNE_CPU_MEMBER __half(int v) : __half(static_cast<double>(v)) {}
  TUNE_CPU_MEMBER __half(unsigned v) : __half(static_cast<double>(v)) {}
  TUNE_CPU_MEMBER __half(long long v) : __half(static_cast<double>(v)) {}
  TUNE_CPU_MEMBER operator float() const { return tune_cpu::HalfToFloat(bits); }
};

struct __nv_bfloat16 {
  unsigned short bits;

  __nv_bfloat16() = default;
  TUNE_CPU_MEMBER __nv_bfloat16(float v) : bits(tune_cpu::FloatToBFloat(v)) {}
  TUNE_CPU_MEMBER __nv_bfloat16(double v)
      : bits(tune_cpu::FloatToBFloat(tune_cpu::DoubleToOddFloat(v))) {}
  TUNE_CPU_MEMBER __nv_bfloat16(int v) : __nv_bfloat16(static_cast<double>(v)) {}
  TUNE_CPU_MEMBER __nv_bfloat16(unsigned v) : __nv_bfloat16(static_cast<double>(v)) {}
  TUNE_CPU_MEMBER __nv_bfloat16(long long v) : __nv_bfloat16(static_cast<double>(v)) {}
  TUNE_CPU_MEMBER operator float() const { return tune_cpu::BFloatToFloat(bits); }
};

typedef unsigned char __nv_fp8_storage_t;
struct __nv_fp8_e4m3 {
  __nv_fp8_storage_t __x;

  __nv_fp8_e4m3() = default;
  TUNE_CPU_MEMBER explicit __nv_fp8_e4m3(float v) : __x(tune_cpu::FloatToE4m3(v)) {}
  TUNE_CPU_MEMBER explicit __nv_fp8_e4m3(double v)
      : __x(tune_cpu::FloatToE4m3(tune_cpu::DoubleToOddFloat(v))) {}
  TUNE_CPU_MEMBER explicit __nv_fp8_e4m3(int v) : __nv_fp8_e4m3(static_cast<double>(v)) {}
  TUNE_CPU_MEMBER explicit __nv_fp8_e4m3(__half v) : __nv_fp8_e4m3(static_cast<float>(v)) {}
  TUNE_CPU_MEMBER explicit __nv_fp8_e4m3(__nv_bfloat16 v) : __nv_fp8_e4m3(static_cast<float>(v)) {}
  TUNE_CPU_MEMBER explicit operator float() const { return tune_cpu::E4m3ToFloat(__x); }
  TUNE_CPU_MEMBER explicit operator double() const { return tune_cpu::E4m3ToFloat(__x); }
  TUNE_CPU_MEMBER explicit operator __half() const { return tune_cpu::E4m3ToFloat(__x); }
  TUNE_CPU_MEMBER explicit operator __nv_bfloat16() const { return tune_cpu::E4m3ToFloat(__x); }
};

struct alignas(4) __half2 {
  __half x, y;
  __half2() = default;
  TUNE_CPU_MEMBER __half2(__half x_in, __half y_in) : x(x_in), y(y_in) {}
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
  __nv_bfloat162() = default;
  TUNE_CPU_MEMBER __nv_bfloat162(__nv_bfloat16 x_in, __nv_bfloat16 y_in) : x(x_in), y(y_in) {}
};

using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
struct __half_raw {
  unsigned short x;
  operator __half() const { return __builtin_bit_cast(__half, x); }
};
struct __nv_bfloat16_raw {
  unsigned short x;
  operator __nv_bfloat16() const { return __builtin_bit_cast(__nv_bfloat16, x); }
};

// Operators and the functions that both types have, under one name or under two.
#define TUNE_CPU_OPERATOR(T, op)                                                  \
  TUNE_CPU_INLINE T operator op(T a, T b) { return T(float(a) op float(b)); }     \
  TUNE_CPU_INLINE T& operator op##=(T& a, T b) { return a = T(float(a) op float(b)); } \
  TUNE_CPU_INLINE T##2_t operator op(T##2_t a, T##2_t b) { return {a.x op b.x, a.y op b.y}; } \
  TUNE_CPU_INLINE T##2_t& operator op##=(T##2_t& a, T##2_t b) { return a = a op b; }
#define TUNE_CPU_COMPARE(T, op, name)                                              \
  TUNE_CPU_INLINE bool operator op(T a, T b) { return float(a) op float(b); }      \
  TUNE_CPU_INLINE bool __h##name(T a, T b) { return float(a) op float(b); }
#define TUNE_CPU_BINARY(T, name, expression)                                              \
  TUNE_CPU_INLINE T __h##name(T a_in, T b_in) {                                           \
    const float a = a_in, b = b_in;                                                       \
    return T(expression);                                                                 \
  }                                                                                       \
  TUNE_CPU_INLINE T##2_t __h##name##2(T##2_t a, T##2_t b) {                               \
    return {__h##name(a.x, b.x), __h##name(a.y, b.y)};                                    \
  }
#define TUNE_CPU_UNARY(T, name, expression)                                               \
  TUNE_CPU_INLINE T h##name(T x_in) {                                                     \
    const float x = x_in;                                                                 \
    return T(expression);                                                                 \
  }                                                                                       \
  TUNE_CPU_INLINE T##2_t h2##name(T##2_t a) { return {h##name(a.x), h##name(a.y)}; }

using __half2_t = __half2;
using __nv_bfloat162_t = __nv_bfloat162;

#define TUNE_CPU_SIXTEEN(T)                                                               \
  TUNE_CPU_OPERATOR(T, +)                                                                 \
  TUNE_CPU_OPERATOR(T, -)                                                                 \
  TUNE_CPU_OPERATOR(T, *)                                                                 \
  TUNE_CPU_OPERATOR(T, /)                                                                 \
  TUNE_CPU_INLINE T operator-(T a) {                                                      \
    return __builtin_bit_cast(                                                            \
        T, static_cast<unsigned short>(__builtin_bit_cast(unsigned short, a) ^ 0x8000u)); \
  }                                                                                       \
  TUNE_CPU_INLINE T##2_t operator-(T##2_t a) { return {-a.x, -a.y}; }                     \
  TUNE_CPU_COMPARE(T, ==, eq)                                                             \
  TUNE_CPU_COMPARE(T, !=, ne)                                                             \
  TUNE_CPU_COMPARE(T, <, lt)                                                              \
  TUNE_CPU_COMPARE(T, <=, le)                                                             \
  TUNE_CPU_COMPARE(T, >, gt)                                                              \
  TUNE_CPU_COMPARE(T, >=, ge)                                                             \
  TUNE_CPU_BINARY(T, add, a + b)                                                          \
  TUNE_CPU_BINARY(T, sub, a - b)                                                          \
  TUNE_CPU_BINARY(T, mul, a* b)                                                           \
  TUNE_CPU_BINARY(T, min, tune_cpu_fminf(a, b))                                           \
  TUNE_CPU_BINARY(T, max, tune_cpu_fmaxf(a, b))                                           \
  TUNE_CPU_INLINE T __hdiv(T a, T b) { return a / b; }                                    \
  TUNE_CPU_INLINE T##2_t __h2div(T##2_t a, T##2_t b) { return a / b; }                    \
  TUNE_CPU_INLINE T __hneg(T a) { return -a; }                                            \
  TUNE_CPU_INLINE T##2_t __hneg2(T##2_t a) { return -a; }                                 \
  TUNE_CPU_INLINE T __habs(T a) {                                                         \
    return __builtin_bit_cast(                                                            \
        T, static_cast<unsigned short>(__builtin_bit_cast(unsigned short, a) & 0x7fffu)); \
  }                                                                                       \
  TUNE_CPU_INLINE T##2_t __habs2(T##2_t a) { return {__habs(a.x), __habs(a.y)}; }         \
  TUNE_CPU_INLINE T __hfma(T a, T b, T c) {                                               \
    return T(__builtin_fma(double(float(a)), double(float(b)), double(float(c))));        \
  }                                                                                       \
  TUNE_CPU_INLINE T##2_t __hfma2(T##2_t a, T##2_t b, T##2_t c) {                          \
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                \
  }                                                                                       \
  TUNE_CPU_INLINE bool __hisnan(T a) { return float(a) != float(a); }                     \
  TUNE_CPU_INLINE int __hisinf(T a) {                                                     \
    return float(a) == __builtin_inff() ? 1 : float(a) == -__builtin_inff() ? -1 : 0;     \
  }                                                                                       \
  TUNE_CPU_UNARY(T, exp, tune_cpu_expf(x))                                                \
  TUNE_CPU_UNARY(T, exp2, tune_cpu_exp2f(x))                                              \
  TUNE_CPU_UNARY(T, log, logf(x))                                                         \
  TUNE_CPU_UNARY(T, log2, log2f(x))                                                       \
  TUNE_CPU_UNARY(T, sqrt, __builtin_sqrtf(x))                                             \
  TUNE_CPU_UNARY(T, rsqrt, rsqrtf(x))                                                     \
  TUNE_CPU_UNARY(T, rcp, 1.0f / x)                                                        \
  TUNE_CPU_UNARY(T, sin, sinf(x))                                                         \
  TUNE_CPU_UNARY(T, cos, cosf(x))                                                         \
  TUNE_CPU_INLINE float __low2float(T##2_t a) { return a.x; }                             \
  TUNE_CPU_INLINE float __high2float(T##2_t a) { return a.y; }                            \
  TUNE_CPU_INLINE T##2_t __lowhigh2highlow(T##2_t a) { return {a.y, a.x}; }               \
  TUNE_CPU_INLINE T atomicAdd(T* address, T value) {                                      \
    auto* bits = reinterpret_cast<unsigned short*>(address);                              \
    return __builtin_bit_cast(T, AtomicUpdate16<T>(bits, value));                         \
  }                                                                                       \
  TUNE_CPU_INLINE T##2_t atomicAdd(T##2_t* address, T##2_t value) {                       \
    return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y)};            \
  }

template <class T>
TUNE_CPU_INLINE unsigned short AtomicUpdate16(unsigned short* address, T value) {
  unsigned short expected = __atomic_load_n(address, __ATOMIC_RELAXED);
  unsigned short desired;
  do {
    const T sum(float(__builtin_bit_cast(T, expected)) + float(value));
    desired = __builtin_bit_cast(unsigned short, sum);
  } while (!__atomic_compare_exchange_n(address, &expected, desired, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
  return expected;
}

TUNE_CPU_SIXTEEN(__half)
TUNE_CPU_SIXTEEN(__nv_bfloat16)

#undef TUNE_CPU_SIXTEEN
#undef TUNE_CPU_OPERATOR
#undef TUNE_CPU_COMPARE
#undef TUNE_CPU_BINARY
#undef TUNE_CPU_UNARY

// Conversions, by the names of each header.
TUNE_CPU_INLINE __half __float2half(float x) { return __half(x); }
TUNE_CPU_INLINE __half __float2half_rn(float x) { return __half(x); }
TUNE_CPU_INLINE __half __double2half(double x) { return __half(x); }
TUNE_CPU_INLINE __half __int2half_rn(int x) { return __half(x); }
TUNE_CPU_INLINE float __half2float(__half x) { return x; }
TUNE_CPU_INLINE int __half2int_rn(__half x) { return __float2int_rn(x); }
TUNE_CPU_INLINE __half2 __float22half2_rn(float2 v) { return {__half(v.x), __half(v.y)}; }
TUNE_CPU_INLINE __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
TUNE_CPU_INLINE __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
TUNE_CPU_INLINE float2 __half22float2(__half2 v) { return {float(v.x), float(v.y)}; }
TUNE_CPU_INLINE __half2 __half2half2(__half x) { return {x, x}; }
TUNE_CPU_INLINE __half2 __halves2half2(__half x, __half y) { return {x, y}; }
TUNE_CPU_INLINE __half2 make_half2(__half x, __half y) { return {x, y}; }
TUNE_CPU_INLINE __half __low2half(__half2 v) { return v.x; }
TUNE_CPU_INLINE __half __high2half(__half2 v) { return v.y; }
TUNE_CPU_INLINE unsigned short __half_as_ushort(__half x) {
  return __builtin_bit_cast(unsigned short, x);
}
TUNE_CPU_INLINE short __half_as_short(__half x) { return __builtin_bit_cast(short, x); }
TUNE_CPU_INLINE __half __ushort_as_half(unsigned short x) { return __builtin_bit_cast(__half, x); }
TUNE_CPU_INLINE __half __short_as_half(short x) { return __builtin_bit_cast(__half, x); }

TUNE_CPU_INLINE __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
TUNE_CPU_INLINE __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
TUNE_CPU_INLINE __nv_bfloat16 __float2bfloat16_rz(float x) {
  const unsigned bits = __float_as_uint(x);
  return __nv_bfloat16_raw{static_cast<unsigned short>(x == x ? bits >> 16 : 0x7fffu)};
}
TUNE_CPU_INLINE __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(x); }
TUNE_CPU_INLINE __nv_bfloat16 __int2bfloat16_rn(int x) { return __nv_bfloat16(x); }
TUNE_CPU_INLINE float __bfloat162float(__nv_bfloat16 x) { return x; }
TUNE_CPU_INLINE int __bfloat162int_rn(__nv_bfloat16 x) { return __float2int_rn(x); }
TUNE_CPU_INLINE __nv_bfloat162 __float22bfloat162_rn(float2 v) {
  return {__nv_bfloat16(v.x), __nv_bfloat16(v.y)};
}
TUNE_CPU_INLINE __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__nv_bfloat16(x), __nv_bfloat16(y)};
}
TUNE_CPU_INLINE __nv_bfloat162 __float2bfloat162_rn(float x) {
  return {__nv_bfloat16(x), __nv_bfloat16(x)};
}
TUNE_CPU_INLINE float2 __bfloat1622float2(__nv_bfloat162 v) { return {float(v.x), float(v.y)}; }
TUNE_CPU_INLINE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return {x, x}; }
TUNE_CPU_INLINE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) {
  return {x, y};
}
TUNE_CPU_INLINE __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
TUNE_CPU_INLINE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
TUNE_CPU_INLINE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
TUNE_CPU_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
TUNE_CPU_INLINE short __bfloat16_as_short(__nv_bfloat16 x) { return static_cast<short>(x.bits); }
TUNE_CPU_INLINE __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) {
  return __nv_bfloat16_raw{x};
}
TUNE_CPU_INLINE __nv_bfloat16 __short_as_bfloat16(short x) {
  return __nv_bfloat16_raw{static_cast<unsigned short>(x)};
}
