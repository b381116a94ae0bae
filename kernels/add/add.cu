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
  ForEachTile(n, [&](long long at) {
    Items left;
    Items right;
    left.Load(x, at, n);
    right.Load(y, at, n);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      float value[kVector];
#pragma unroll
      for (int e = 0; e < kVector; ++e) value[e] = At(left.vector[i], e) + At(right.vector[i], e);
      StoreAt(z, ElementOf(at, i), n, Rounded(value));
    }
  });
}

#endif  // TUNE_REFERENCE
