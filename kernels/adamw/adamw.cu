// SPDX-License-Identifier: Apache-2.0
// A step of AdamW (Adam with decoupled weight decay), in place, over n parameters in one piece:
//   m = beta1 m + (1 - beta1) g          v = beta2 v + (1 - beta2) g g
//   p = p (1 - rate decay) - rate (m correction1) / (sqrt(v correction2) + epsilon)
// With correction1 = 1 / (1 - beta1^t) and correction2 = 1 / (1 - beta2^t) in step t. If MASTER, p
// is the rounding of an f32 copy, which is what is updated.
#if TUNE_REFERENCE

#if DTYPE_BF16
#include <cuda_bf16.h>
#elif DTYPE_F16
#include <cuda_fp16.h>
#endif

// In double precision.
extern "C" __global__ void adamw_reference(double* p, double* master, const DTYPE* g, double* m,
                                           double* v, long long n, float rate, float decay,
                                           float beta1, float beta2, float epsilon,
                                           float correction1, float correction2) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step) {
    const double gradient = static_cast<float>(g[i]);
    m[i] = beta1 * m[i] + (1.0 - beta1) * gradient;
    v[i] = beta2 * v[i] + (1.0 - beta2) * gradient * gradient;
    const double before = MASTER ? master[i] : p[i];
    p[i] = before * (1.0 - static_cast<double>(rate) * decay) -
           rate * (m[i] * correction1) / (sqrt(v[i] * correction2) + epsilon);
    if (MASTER) master[i] = p[i];
  }
}

#else

#include "adamw_step.cuh"
#include "flat.cuh"

__device__ __forceinline__ void StepOf(const Vectors& part, const Tensors& t, const Rule& rule) {
  Element element[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    if (part.IsWhole(i)) Fetch(element[i], t, ElementOf(part.tile, i));
  }
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    if (part.IsWhole(i)) Step(element[i], t, rule, ElementOf(part.tile, i));
  }
}

__device__ __forceinline__ void StepOf(const Single& part, const Tensors& t, const Rule& rule) {
  StepSingles<1>(t, rule, part.at);
}

extern "C" __global__ void __launch_bounds__(THREADS, kBlocksPerSm)
    adamw(Bits* p, float* master, const Bits* __restrict__ g, float* m, float* v, long long n,
          float rate, float decay, float beta1, float beta2, float epsilon, float correction1,
          float correction2) {
  const Tensors tensors = {p, master, g, m, v};
  const Rule rule = {1.0f - rate * decay, rate * correction1, beta1, beta2, epsilon, correction2};
  ForEachTile(n, [&](auto part) { StepOf(part, tensors, rule); });
}

#endif  // TUNE_REFERENCE
