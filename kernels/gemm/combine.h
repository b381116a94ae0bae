// SPDX-License-Identifier: Apache-2.0
// The second step where k is split: C from the partial sums.
#pragma once

#include "epilogue.h"

#if SPLIT > 1

constexpr int kCombineThreads = 256;
#if C_VECTOR
constexpr int kCombineEach = 4;  // neighbouring elements of a row
#else
constexpr int kCombineEach = 1;
#endif

struct alignas(4 * kCombineEach) PartialSums {
  float at[kCombineEach];
};
struct alignas(2 * kCombineEach) Results {
  Element at[kCombineEach];
};

extern "C" __global__ void __launch_bounds__(kCombineThreads)
    gemm_combine(const float* __restrict__ partials, const Element* __restrict__ bias,
                 const Element* __restrict__ residual, const float* __restrict__ a_scale,
                 const float* __restrict__ b_scale, Element* __restrict__ out, int m, int n,
                 float alpha) {
  const Output output = {bias, residual, a_scale, b_scale, out, nullptr, alpha};
  const long long size = static_cast<long long>(m) * n;
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x * kCombineEach;
  long long i = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * kCombineEach;
  for (; i < size; i += stride) {
    PartialSums sums = {};
#pragma unroll
    for (int split = 0; split < SPLIT; ++split) {
      const auto part = *reinterpret_cast<const PartialSums*>(partials + split * size + i);
      for (int e = 0; e < kCombineEach; ++e) sums.at[e] += part.at[e];
    }
    Results results;
    const float factor = kHasScales ? RowFactor(output, static_cast<int>(i / n)) : alpha;
    for (int e = 0; e < kCombineEach; ++e) {
      const int column = kHasScales || kHasBias ? static_cast<int>(i % n) + e : 0;
      float x = factor * ColumnFactor(output, column) * sums.at[e];
      if (kHasBias) x += static_cast<float>(bias[column]);
      if (kHasResidual) x += static_cast<float>(residual[i + e]);
      results.at[e] = static_cast<Element>(Activate(x));
    }
    *reinterpret_cast<Results*>(out + i) = results;
  }
}

#endif
