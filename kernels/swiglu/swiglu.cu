// SPDX-License-Identifier: Apache-2.0
// y = silu(gate) * up, element by element, with silu(g) = g / (1 + exp(-g)).
#if TUNE_REFERENCE

#if DTYPE_BF16
#include <cuda_bf16.h>
#elif DTYPE_F16
#include <cuda_fp16.h>
#endif

// In double precision.
extern "C" __global__ void swiglu_reference(const DTYPE* gate, const DTYPE* up, double* y,
                                            long long n) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step) {
    const double g = static_cast<float>(gate[i]);
    y[i] = g / (1 + exp(-g)) * static_cast<double>(static_cast<float>(up[i]));
  }
}

#else

#include "flat.cuh"
#include "sigmoid.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, kBlocksPerSm)
    swiglu(const Bits* __restrict__ gate, const Bits* __restrict__ up, Bits* __restrict__ y,
           long long n) {
  ForEachTile(n, [&](auto part) {
    Vector gates[part.kCount];
    Vector ups[part.kCount];
    part.Load(gates, gate);
    part.Load(ups, up);
#pragma unroll
    for (int i = 0; i < part.kCount; ++i) {
      float value[kVector];
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        const float g = At(gates[i], e);
        value[e] = g * Sigmoid(g) * At(ups[i], e);
      }
      part.Store(y, i, Rounded(value));
    }
  });
}

#endif  // TUNE_REFERENCE
