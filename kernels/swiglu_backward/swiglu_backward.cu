// SPDX-License-Identifier: Apache-2.0
// The gradients of y = silu(gate) * up, element by element, with s = 1 / (1 + exp(-gate)):
// dgate = dy * up * s * (1 + gate * (1 - s)), and dup = dy * gate * s.
#if TUNE_REFERENCE

#if DTYPE_BF16
#include <cuda_bf16.h>
#elif DTYPE_F16
#include <cuda_fp16.h>
#endif

// In double precision.
extern "C" __global__ void swiglu_backward_reference(const DTYPE* gate, const DTYPE* up,
                                                     const DTYPE* dy, double* dgate, double* dup,
                                                     long long n) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step) {
    const double g = static_cast<float>(gate[i]);
    const double gradient = static_cast<float>(dy[i]);
    const double s = 1 / (1 + exp(-g));
    dgate[i] = gradient * static_cast<double>(static_cast<float>(up[i])) * s * (1 + g * (1 - s));
    dup[i] = gradient * g * s;
  }
}

#else

#include "flat.cuh"
#include "sigmoid.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, kBlocksPerSm)
    swiglu_backward(const Bits* __restrict__ gate, const Bits* __restrict__ up,
                    const Bits* __restrict__ dy, Bits* __restrict__ dgate,
                    Bits* __restrict__ dup, long long n) {
  ForEachTile(n, [&](auto part) {
    Vector gates[part.kCount];
    Vector ups[part.kCount];
    Vector gradients[part.kCount];
    part.Load(gates, gate);
    part.Load(ups, up);
    part.Load(gradients, dy);
#pragma unroll
    for (int i = 0; i < part.kCount; ++i) {
      float gate_gradient[kVector];
      float up_gradient[kVector];
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        const float g = At(gates[i], e);
        const float s = Sigmoid(g);
        const float scaled = At(gradients[i], e) * s;
        gate_gradient[e] = scaled * At(ups[i], e) * (1.0f + g * (1.0f - s));
        up_gradient[e] = scaled * g;
      }
      part.Store(dgate, i, Rounded(gate_gradient));
      part.Store(dup, i, Rounded(up_gradient));
    }
  });
}

#endif  // TUNE_REFERENCE
