// SPDX-License-Identifier: Apache-2.0
// z = x + y, element by element.
#if TUNE_REFERENCE

#if DTYPE_BF16
#include <cuda_bf16.h>
#elif DTYPE_F16
#include <cuda_fp16.h>
#endif

// In double precision.
extern "C" __global__ void add_reference(const DTYPE* x, const DTYPE* y, double* z, long long n) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step) {
    z[i] = static_cast<double>(static_cast<float>(x[i])) + static_cast<float>(y[i]);
  }
}

#else

#include "flat.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, kBlocksPerSm)
    add(const Bits* __restrict__ x, const Bits* __restrict__ y, Bits* __restrict__ z,
        long long n) {
  ForEachTile(n, [&](auto part) {
    Vector left[part.kCount];
    Vector right[part.kCount];
    part.Load(left, x);
    part.Load(right, y);
#pragma unroll
    for (int i = 0; i < part.kCount; ++i) {
      float value[kVector];
#pragma unroll
      for (int e = 0; e < kVector; ++e) value[e] = At(left[i], e) + At(right[i], e);
      part.Store(z, i, Rounded(value));
    }
  });
}

#endif  // TUNE_REFERENCE
