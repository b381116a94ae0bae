// SPDX-License-Identifier: Apache-2.0
// Work on the sums of tensor cores, which spread a row over four neighbouring lanes (a quad): of
// each 8 columns a lane has two, for rows lane / 4 and lane / 4 + 8.
#pragma once

__device__ __forceinline__ float QuadMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ float QuadSum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// Gives lane i of a quad the i-th word of each of its lanes, in the order of the lanes. It is its
// own inverse.
__device__ __forceinline__ void TransposeQuad(unsigned (&w)[4]) {
#pragma unroll
  for (int step = 1; step <= 2; step *= 2) {
    const bool upper = threadIdx.x & step;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      unsigned& low = w[step == 1 ? 2 * i : i];
      unsigned& high = w[step == 1 ? 2 * i + 1 : i + 2];
      const unsigned got = __shfl_xor_sync(0xffffffffu, upper ? low : high, step);
      low = upper ? got : low;
      high = upper ? high : got;
    }
  }
}
