// SPDX-License-Identifier: Apache-2.0
// The logistic function, by the machine's own exponential and reciprocal. Each kernel that includes
// this file has a copy of it, and a test holds the copies alike.
#pragma once

// 1 / (1 + exp(-x)); 0 and 1 far out.
__device__ __forceinline__ float Sigmoid(float x) {
#if TUNE_CPU
  return 1.0f / (1.0f + exp2f(x * -1.44269504f));
#else
  float exponential;
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(exponential) : "f"(x * -1.44269504f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + exponential));
  return result;
#endif
}
