// SPDX-License-Identifier: Apache-2.0
// The logistic function, by the machine's own exponential and reciprocal.
#pragma once

#include "fast_math.cuh"

// 1 / (1 + exp(-x)); 0 and 1 far out.
__device__ __forceinline__ float Sigmoid(float x) {
#if TUNE_CPU
  return 1.0f / (1.0f + exp2f(x * -1.44269504f));
#else
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + Exp2(x * -1.44269504f)));
  return result;
#endif
}
