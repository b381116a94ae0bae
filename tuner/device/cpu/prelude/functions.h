// SPDX-License-Identifier: Apache-2.0
// CUDA's integer and mathematical functions. Those that sit in inner loops (exp, exp2, min, max)
// are written so that the compiler can vectorise them; the rest come from the C library.
#pragma once

#include "launch.h"
#include "sync.h"

#if !__has_builtin(__builtin_bit_cast)  // before GCC 11
template <typename To, typename From>
TUNE_CPU_INLINE To tune_cpu_bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}
#define __builtin_bit_cast(To, from) tune_cpu_bit_cast<To>(from)
#endif

// Bits.
TUNE_CPU_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
TUNE_CPU_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
TUNE_CPU_INLINE int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
TUNE_CPU_INLINE int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
TUNE_CPU_INLINE int __ffs(int x) { return __builtin_ffs(x); }
TUNE_CPU_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
TUNE_CPU_INLINE unsigned __brev(unsigned x) {
  x = ((x >> 1) & 0x55555555u) | ((x & 0x55555555u) << 1);
  x = ((x >> 2) & 0x33333333u) | ((x & 0x33333333u) << 2);
  x = ((x >> 4) & 0x0f0f0f0fu) | ((x & 0x0f0f0f0fu) << 4);
  return __builtin_bswap32(x);
}
TUNE_CPU_INLINE unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const unsigned long long bytes = (static_cast<unsigned long long>(y) << 32) | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned pick = (selector >> (4 * i)) & 0xfu;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (pick & 7u))) & 0xffu;
    if ((pick & 8u) != 0) byte = (byte & 0x80u) != 0 ? 0xffu : 0u;
    result |= byte << (8 * i);
  }
  return result;
}
TUNE_CPU_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((((static_cast<unsigned long long>(high) << 32) | low)
                                << (shift & 31u)) >> 32);
}
TUNE_CPU_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((static_cast<unsigned long long>(high) << 32) | low) >>
                               (shift & 31u));
}
TUNE_CPU_INLINE int __mulhi(int a, int b) {
  return static_cast<int>((static_cast<long long>(a) * b) >> 32);
}
TUNE_CPU_INLINE unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}
TUNE_CPU_INLINE int __mul24(int a, int b) { return ((a << 8) >> 8) * ((b << 8) >> 8); }
TUNE_CPU_INLINE unsigned __umul24(unsigned a, unsigned b) {
  return (a & 0xffffffu) * (b & 0xffffffu);
}

TUNE_CPU_INLINE int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
TUNE_CPU_INLINE unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
TUNE_CPU_INLINE float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
TUNE_CPU_INLINE float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
TUNE_CPU_INLINE long long __double_as_longlong(double x) {
  return __builtin_bit_cast(long long, x);
}
TUNE_CPU_INLINE double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }

// min and max as CUDA overloads them: of floats like fminf and fmaxf, of mixed signs as unsigned.
TUNE_CPU_INLINE float tune_cpu_fminf(float a, float b) {
  const float smaller = a < b ? a : b;  // b if either is NaN
  return b == b ? smaller : a;
}
TUNE_CPU_INLINE float tune_cpu_fmaxf(float a, float b) {
  const float larger = a > b ? a : b;
  return b == b ? larger : a;
}
TUNE_CPU_INLINE double tune_cpu_fmin(double a, double b) {
  const double smaller = a < b ? a : b;
  return b == b ? smaller : a;
}
TUNE_CPU_INLINE double tune_cpu_fmax(double a, double b) {
  const double larger = a > b ? a : b;
  return b == b ? larger : a;
}
#define fminf(a, b) tune_cpu_fminf(a, b)
#define fmaxf(a, b) tune_cpu_fmaxf(a, b)

namespace tune_cpu {
template <class A, class B>
using Arithmetic =
    std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>, std::common_type_t<A, B>>;
}  // namespace tune_cpu

template <class A, class B>
TUNE_CPU_INLINE constexpr tune_cpu::Arithmetic<A, B> min(A a_in, B b_in) {
  using T = std::common_type_t<A, B>;
  const T a = static_cast<T>(a_in);
  const T b = static_cast<T>(b_in);
  const T smaller = a < b ? a : b;
  if constexpr (std::is_floating_point_v<T>) return b == b ? smaller : a;
  return smaller;
}
template <class A, class B>
TUNE_CPU_INLINE constexpr tune_cpu::Arithmetic<A, B> max(A a_in, B b_in) {
  using T = std::common_type_t<A, B>;
  const T a = static_cast<T>(a_in);
  const T b = static_cast<T>(b_in);
  const T larger = a > b ? a : b;
  if constexpr (std::is_floating_point_v<T>) return b == b ? larger : a;
  return larger;
}

namespace tune_cpu {

// 2^(whole + part) where `whole` is an integer in [-252, 254] and `mantissa` is 2^part: in two
// steps, so that subnormal results and overflow come out as they should.
TUNE_CPU_INLINE float ScaleByPowerOfTwo(float mantissa, int whole) {
  const int half = whole >> 1;
  const float first = __int_as_float((half + 127) << 23);
  const float second = __int_as_float((whole - half + 127) << 23);
  return mantissa * first * second;
}

// e^r for |r| <= ln(2)/2, by its Taylor series to the seventh power: relative error below 3e-8,
// rounding included at most one unit in the last place.
TUNE_CPU_INLINE float ExpNearZero(float r) {
  float p = 1.0f / 5040.0f;
  p = __builtin_fmaf(p, r, 1.0f / 720.0f);
  p = __builtin_fmaf(p, r, 1.0f / 120.0f);
  p = __builtin_fmaf(p, r, 1.0f / 24.0f);
  p = __builtin_fmaf(p, r, 1.0f / 6.0f);
  p = __builtin_fmaf(p, r, 0.5f);
  p = __builtin_fmaf(p, r, 1.0f);
  return __builtin_fmaf(p, r, 1.0f);
}

// Adding and taking away 1.5 * 2^23 rounds to an integer, whose value then is in the low bits.
inline constexpr float kRoundingMagic = 12582912.0f;

}  // namespace tune_cpu

// Within 1 unit in the last place of the true value; NaN and infinities as in C.
TUNE_CPU_INLINE float tune_cpu_expf(float x) {
  // Beyond these the result is 0 or infinity anyhow. NaN passes both comparisons unchanged.
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float shifted = __builtin_fmaf(x, 1.44269504f, tune_cpu::kRoundingMagic);
  const float whole = shifted - tune_cpu::kRoundingMagic;
  float r = __builtin_fmaf(whole, -0.693145752f, x);
  r = __builtin_fmaf(whole, -1.42860677e-6f, r);
  const int exponent = __float_as_int(shifted) - __float_as_int(tune_cpu::kRoundingMagic);
  const float result = tune_cpu::ScaleByPowerOfTwo(tune_cpu::ExpNearZero(r), exponent);
  return x == x ? result : x;
}
TUNE_CPU_INLINE float tune_cpu_exp2f(float x) {
  x = x < -151.0f ? -151.0f : x;
  x = x > 129.0f ? 129.0f : x;
  const float shifted = x + tune_cpu::kRoundingMagic;
  const float whole = shifted - tune_cpu::kRoundingMagic;
  const float r = (x - whole) * 0.693147181f;
  const int exponent = __float_as_int(shifted) - __float_as_int(tune_cpu::kRoundingMagic);
  const float result = tune_cpu::ScaleByPowerOfTwo(tune_cpu::ExpNearZero(r), exponent);
  return x == x ? result : x;
}
#define expf(x) tune_cpu_expf(x)
#define exp2f(x) tune_cpu_exp2f(x)
#define __expf(x) tune_cpu_expf(x)
#define __exp2f(x) tune_cpu_exp2f(x)
#define __exp10f(x) tune_cpu_exp2f((x) * 3.32192809f)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __tanhf(x) tanhf(x)
#define __sincosf(x, s, c) sincosf(x, s, c)
#define __powf(x, y) powf(x, y)
#define __saturatef(x) tune_cpu_fminf(tune_cpu_fmaxf(x, 0.0f), 1.0f)

TUNE_CPU_INLINE float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
TUNE_CPU_INLINE double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
#if !defined(__GLIBC__) || !__GLIBC_PREREQ(2, 41)  // which has them
TUNE_CPU_INLINE float sinpif(float x) { return sinf(x * 3.14159265f); }
TUNE_CPU_INLINE float cospif(float x) { return cosf(x * 3.14159265f); }
#endif
TUNE_CPU_INLINE float __fdividef(float a, float b) { return a / b; }
TUNE_CPU_INLINE float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TUNE_CPU_INLINE double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
TUNE_CPU_INLINE float __fdiv_rn(float a, float b) { return a / b; }
TUNE_CPU_INLINE float __frcp_rn(float a) { return 1.0f / a; }
TUNE_CPU_INLINE float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
TUNE_CPU_INLINE float __frsqrt_rn(float a) { return 1.0f / __builtin_sqrtf(a); }
TUNE_CPU_INLINE double __ddiv_rn(double a, double b) { return a / b; }
// Never contracted into a multiply-add: that is what these are for.
#if defined(__x86_64__)
#define TUNE_CPU_KEEP(value) __asm__("" : "+x"(value))
#else
#define TUNE_CPU_KEEP(value) __asm__("" : "+w"(value))
#endif
TUNE_CPU_INLINE float __fmul_rn(float a, float b) {
  float product = a * b;
  TUNE_CPU_KEEP(product);
  return product;
}
TUNE_CPU_INLINE float __fadd_rn(float a, float b) {
  TUNE_CPU_KEEP(a);
  return a + b;
}
TUNE_CPU_INLINE float __fsub_rn(float a, float b) { return __fadd_rn(a, -b); }
TUNE_CPU_INLINE double __dmul_rn(double a, double b) {
  double product = a * b;
  TUNE_CPU_KEEP(product);
  return product;
}
TUNE_CPU_INLINE double __dadd_rn(double a, double b) {
  TUNE_CPU_KEEP(a);
  return a + b;
}
TUNE_CPU_INLINE double __dsub_rn(double a, double b) { return __dadd_rn(a, -b); }
TUNE_CPU_INLINE double __drcp_rn(double a) { return 1.0 / a; }
TUNE_CPU_INLINE double __dsqrt_rn(double a) { return __builtin_sqrt(a); }

// Sums of products of four bytes each.
TUNE_CPU_INLINE int __dp4a(int a, int b, int sum) {
  for (int byte = 0; byte < 32; byte += 8) {
    sum += static_cast<signed char>(a >> byte) * static_cast<signed char>(b >> byte);
  }
  return sum;
}
TUNE_CPU_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
  for (unsigned byte = 0; byte < 32; byte += 8) sum += (a >> byte & 255u) * (b >> byte & 255u);
  return sum;
}

// Steps run one after the other: what the step before it wrote is there.
TUNE_CPU_INLINE void cudaGridDependencySynchronize() {}
TUNE_CPU_INLINE void cudaTriggerProgrammaticLaunchCompletion() {}

// Conversions.
TUNE_CPU_INLINE int __float2int_rn(float x) { return static_cast<int>(__builtin_rintf(x)); }
TUNE_CPU_INLINE int __float2int_rz(float x) { return static_cast<int>(x); }
TUNE_CPU_INLINE int __float2int_rd(float x) { return static_cast<int>(__builtin_floorf(x)); }
TUNE_CPU_INLINE int __float2int_ru(float x) { return static_cast<int>(__builtin_ceilf(x)); }
TUNE_CPU_INLINE unsigned __float2uint_rn(float x) {
  return static_cast<unsigned>(__builtin_rintf(x));
}
TUNE_CPU_INLINE unsigned __float2uint_rz(float x) { return static_cast<unsigned>(x); }
TUNE_CPU_INLINE float __int2float_rn(int x) { return static_cast<float>(x); }
TUNE_CPU_INLINE float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
TUNE_CPU_INLINE float __double2float_rn(double x) { return static_cast<float>(x); }
TUNE_CPU_INLINE int __double2int_rn(double x) { return static_cast<int>(__builtin_rint(x)); }
TUNE_CPU_INLINE int __double2int_rz(double x) { return static_cast<int>(x); }
TUNE_CPU_INLINE int __double2int_rd(double x) { return static_cast<int>(__builtin_floor(x)); }
TUNE_CPU_INLINE int __double2int_ru(double x) { return static_cast<int>(__builtin_ceil(x)); }
TUNE_CPU_INLINE long long __double2ll_rn(double x) {
  return static_cast<long long>(__builtin_rint(x));
}
TUNE_CPU_INLINE long long __double2ll_rz(double x) { return static_cast<long long>(x); }
TUNE_CPU_INLINE double __int2double_rn(int x) { return x; }
TUNE_CPU_INLINE double __uint2double_rn(unsigned x) { return x; }
TUNE_CPU_INLINE double __ll2double_rn(long long x) { return static_cast<double>(x); }
