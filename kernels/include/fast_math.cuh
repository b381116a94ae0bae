// SPDX-License-Identifier: Apache-2.0
// The exponential, and conversions from and to 16 bits, by one instruction each. Elements go by
// their bits: the headers of their types would be a fifth of the time to compile a variant.
#pragma once

// 2^x; 0 far below, infinity far above.
__device__ __forceinline__ float Exp2(float x) {
#if TUNE_CPU
  return exp2f(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

// The f16 that has these bits.
__device__ __forceinline__ float FloatOfHalf(unsigned short bits) {
#if TUNE_CPU
  return __half2float(__ushort_as_half(bits));
#else
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#endif
}

// Two floats as 16-bit elements in one word, `low` in its low half: f16 if that is the dtype, bf16
// if it is another than f32.
__device__ __forceinline__ unsigned Pack(float low, float high) {
#if TUNE_CPU && DTYPE_BF16
  return __bfloat16_as_ushort(__float2bfloat16_rn(low)) |
         static_cast<unsigned>(__bfloat16_as_ushort(__float2bfloat16_rn(high))) << 16;
#elif TUNE_CPU && DTYPE_F16
  return __half_as_ushort(__float2half_rn(low)) |
         static_cast<unsigned>(__half_as_ushort(__float2half_rn(high))) << 16;
#else
  unsigned word = 0;
#if DTYPE_F16
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#elif !DTYPE_F32 && !TUNE_CPU
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#endif
  return word;
#endif
}
