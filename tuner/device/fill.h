// SPDX-License-Identifier: Apache-2.0
// The values that buffers are filled with. One text for every device: it includes nothing, compiles
// as plain C++ and, handed to NVRTC, as device code, and gives the same bits in both. Hence its own
// logarithm and sine, and every multiply-add spelt out: nothing is left for a compiler to contract
// and no two math libraries can differ.
//
// A value depends on the seed, the buffer's name and the element's index only. A buffer narrower
// than f32 takes the f32 value rounded to nearest even. An INOUT buffer that the reference sees in
// a wider type must be widened from the narrow values, so that both kernels start from equal
// numbers.
#pragma once

#if defined(__CUDACC__)
#define TUNE_FILL_FUNCTION __device__ __forceinline__
#define TUNE_FILL_FMA(a, b, c) __fmaf_rn(a, b, c)
#define TUNE_FILL_MUL(a, b) __fmul_rn(a, b)
#define TUNE_FILL_ADD(a, b) __fadd_rn(a, b)
#define TUNE_FILL_DIV(a, b) __fdiv_rn(a, b)
#define TUNE_FILL_SQRT(a) __fsqrt_rn(a)
#define TUNE_FILL_TO_BITS(a) __float_as_int(a)
#define TUNE_FILL_FROM_BITS(a) __int_as_float(a)
#else
// `a * b` and `a + b` never meet in one expression below, so contraction has nothing to act on.
#define TUNE_FILL_FUNCTION [[gnu::always_inline]] inline
#define TUNE_FILL_FMA(a, b, c) __builtin_fmaf(a, b, c)
#define TUNE_FILL_MUL(a, b) ((a) * (b))
#define TUNE_FILL_ADD(a, b) ((a) + (b))
#define TUNE_FILL_DIV(a, b) ((a) / (b))
#define TUNE_FILL_SQRT(a) __builtin_sqrtf(a)
#define TUNE_FILL_TO_BITS(a) __builtin_bit_cast(int, a)
#define TUNE_FILL_FROM_BITS(a) __builtin_bit_cast(float, a)
#endif

namespace tune {

// Values as tune::Fill::Kind's.
enum FillKind { kFillNormal = 1, kFillUniform = 2, kFillConstant = 3, kFillIota = 4 };

struct FillBits {
  unsigned first;
  unsigned second;
};

// The key of one buffer: FNV-1a of its name, mixed with the seed by the finaliser of SplitMix64
// (Steele, Lea, Flood, OOPSLA 2014).
#if !defined(__CUDACC__)
inline unsigned long long FillKey(unsigned long long seed, const char* name) {
  unsigned long long hash = 0xcbf29ce484222325ull;
  for (; *name != '\0'; ++name) {
    hash = (hash ^ static_cast<unsigned char>(*name)) * 0x100000001b3ull;
  }
  unsigned long long z = hash + seed * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
#endif

// Philox2x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11).
TUNE_FILL_FUNCTION FillBits FillPhilox(unsigned long long key, unsigned long long counter) {
  unsigned low = static_cast<unsigned>(counter);
  unsigned high = static_cast<unsigned>(counter >> 32) ^ static_cast<unsigned>(key >> 32);
  unsigned round_key = static_cast<unsigned>(key);
  for (int round = 0; round < 10; ++round) {
    const unsigned long long product = 0xd256d193ull * low;
    low = static_cast<unsigned>(product >> 32) ^ round_key ^ high;
    high = static_cast<unsigned>(product);
    round_key += 0x9e3779b9u;
  }
  return {low, high};
}

// [0, 1) in steps of 2^-24.
TUNE_FILL_FUNCTION float FillUnit(unsigned long long key, unsigned long long index) {
  const FillBits bits = FillPhilox(key, index >> 1);
  const unsigned word = (index & 1) != 0 ? bits.second : bits.first;
  return TUNE_FILL_MUL(static_cast<float>(static_cast<int>(word >> 8)), 0x1p-24f);
}

// -ln(n / 2^24) for n in [1, 2^24], by ln m = 2 atanh((m - 1) / (m + 1)) with m in [0.75, 1.5);
// absolute error below 3e-6.
TUNE_FILL_FUNCTION float FillMinusLog(unsigned n) {
  const int bits = TUNE_FILL_TO_BITS(static_cast<float>(static_cast<int>(n)));
  const int exponent = (bits - 0x3f400000) >> 23;
  const float m = TUNE_FILL_FROM_BITS(bits - exponent * (1 << 23));
  const float s = TUNE_FILL_DIV(TUNE_FILL_ADD(m, -1.0f), TUNE_FILL_ADD(m, 1.0f));
  const float s2 = TUNE_FILL_MUL(s, s);
  float series = 2.0f / 9.0f;
  series = TUNE_FILL_FMA(series, s2, 2.0f / 7.0f);
  series = TUNE_FILL_FMA(series, s2, 2.0f / 5.0f);
  series = TUNE_FILL_FMA(series, s2, 2.0f / 3.0f);
  series = TUNE_FILL_FMA(series, s2, 2.0f);
  const float log_m = TUNE_FILL_MUL(series, s);
  return TUNE_FILL_FMA(static_cast<float>(24 - exponent), 0.693147181f, -log_m);
}

// Mean 0, standard deviation 1, |value| < 5.8, by Box and Muller: elements 2k and 2k + 1 are the
// cosine and the sine of one draw.
TUNE_FILL_FUNCTION float FillGauss(unsigned long long key, unsigned long long index) {
  const FillBits bits = FillPhilox(key, index >> 1);
  const float radius = TUNE_FILL_SQRT(TUNE_FILL_MUL(2.0f, FillMinusLog((bits.first >> 8) + 1u)));
  // The angle: two bits of quadrant, and the rest within [-pi/4, pi/4) of its middle.
  const int rest = static_cast<int>((bits.second >> 6) & 0xffffffu) - 0x800000;
  const float a = TUNE_FILL_MUL(static_cast<float>(rest), 0x1.921fb6p+0f * 0x1p-24f);
  const float a2 = TUNE_FILL_MUL(a, a);
  float sine = TUNE_FILL_FMA(1.0f / 362880.0f, a2, -1.0f / 5040.0f);
  sine = TUNE_FILL_FMA(sine, a2, 1.0f / 120.0f);
  sine = TUNE_FILL_FMA(sine, a2, -1.0f / 6.0f);
  sine = TUNE_FILL_FMA(sine, a2, 1.0f);
  sine = TUNE_FILL_MUL(sine, a);
  float cosine = TUNE_FILL_FMA(1.0f / 40320.0f, a2, -1.0f / 720.0f);
  cosine = TUNE_FILL_FMA(cosine, a2, 1.0f / 24.0f);
  cosine = TUNE_FILL_FMA(cosine, a2, -0.5f);
  cosine = TUNE_FILL_FMA(cosine, a2, 1.0f);
  // Turning by quarters: (c, s) -> (-s, c) -> (-c, -s) -> (s, -c).
  const unsigned quadrant = (bits.second >> 30) & 3u;
  const bool odd = (index & 1) != 0;
  const bool swap = ((quadrant & 1u) != 0) != odd;
  const bool negate = odd ? quadrant >= 2u : quadrant == 1u || quadrant == 2u;
  const float value = swap ? sine : cosine;
  return TUNE_FILL_MUL(radius, negate ? -value : value);
}

// The element of a floating-point buffer at `index`. NORMAL: mean `low`, standard deviation `high`
// (1 if 0). UNIFORM: [low, high), or [low, low + 1) if that is empty.
TUNE_FILL_FUNCTION float FillFloat(int kind, float low, float high, unsigned long long key,
                                   unsigned long long index) {
  if (kind == kFillNormal) {
    return TUNE_FILL_FMA(FillGauss(key, index), high == 0.0f ? 1.0f : high, low);
  }
  if (kind == kFillUniform) {
    const float span = high > low ? TUNE_FILL_ADD(high, -low) : 1.0f;
    const float value = TUNE_FILL_FMA(FillUnit(key, index), span, low);
    // Rounding may reach the open end.
    return high > low && value >= high ? low : value;
  }
  return kind == kFillConstant ? low : static_cast<float>(index);
}

// The element of an integer buffer at `index`; the device narrows it to the buffer's type. UNIFORM
// draws from at most 2^32 values; a NORMAL is cut towards zero.
TUNE_FILL_FUNCTION long long FillInteger(int kind, long long low, long long high,
                                         unsigned long long key, unsigned long long index) {
  if (kind == kFillNormal) {
    return static_cast<long long>(
        FillFloat(kFillNormal, static_cast<float>(low), static_cast<float>(high), key, index));
  }
  if (kind == kFillUniform) {
    const FillBits bits = FillPhilox(key, index >> 1);
    const unsigned word = (index & 1) != 0 ? bits.second : bits.first;
    const unsigned long long wanted =
        high > low ? static_cast<unsigned long long>(high) - static_cast<unsigned long long>(low)
                   : 1ull;
    const unsigned long long span = wanted > 0x100000000ull ? 0x100000000ull : wanted;
    // The product of two 32-bit numbers, or 2^32 times one: never overflows.
    return low + static_cast<long long>((span * word) >> 32);
  }
  return kind == kFillConstant ? low : static_cast<long long>(index);
}

}  // namespace tune
