// SPDX-License-Identifier: Apache-2.0
// One step of AdamW (Adam with decoupled weight decay), in place, over n parameters in one piece:
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

#include "flat.cuh"

// What the kernel writes it reads by plain loads: others may come from a cache that is not told.

// kVector floats of a state that the kernel writes, as wide as they are aligned.
constexpr int kFloats = Min(kVector, 4);
struct alignas(4 * kFloats) Floats {
  float of[kFloats];
};

__device__ __forceinline__ void LoadOwn(const float* x, long long at, long long n,
                                        float (&value)[kVector]) {
  if (at + kVector <= n) {
#pragma unroll
    for (int i = 0; i < kVector; i += kFloats) {
      const Floats floats = *reinterpret_cast<const Floats*>(x + at + i);
#pragma unroll
      for (int e = 0; e < kFloats; ++e) value[i + e] = floats.of[e];
    }
  } else {
#pragma unroll
    for (int e = 0; e < kVector; ++e) value[e] = at + e < n ? x[at + e] : 0.0f;
  }
}

__device__ __forceinline__ void StoreOwn(float* x, long long at, long long n,
                                         const float (&value)[kVector]) {
  if (at + kVector <= n) {
#pragma unroll
    for (int i = 0; i < kVector; i += kFloats) {
      Floats floats;
#pragma unroll
      for (int e = 0; e < kFloats; ++e) floats.of[e] = value[i + e];
      *reinterpret_cast<Floats*>(x + at + i) = floats;
    }
  } else {
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      if (at + e < n) x[at + e] = value[e];
    }
  }
}

__device__ __forceinline__ Vector LoadOwn(const Bits* x, long long at, long long n) {
  if (at + kVector <= n) return *reinterpret_cast<const Vector*>(x + at);
  if (at >= n) return Filled(0);
  return LoadElements(x + at, 0, static_cast<int>(n - at));
}

// A thread's vector of every tensor, on their way together.
struct Element {
  Vector gradient;
  Vector parameter;
  float master[kVector];  // if MASTER; else `parameter`
  float m[kVector];
  float v[kVector];
};

struct Tensors {
  Bits* p;
  float* master;
  const Bits* __restrict__ g;
  float* m;
  float* v;
};

struct Rule {
  float kept;  // 1 - rate * decay
  float rate;  // times correction1
  float beta1;
  float beta2;
  float epsilon;
  float correction2;
};

__device__ __forceinline__ void Fetch(Element& element, const Tensors& t, long long at,
                                      long long n) {
  element.gradient = LoadAt(t.g, at, n);
  if constexpr (MASTER) {
    LoadOwn(t.master, at, n, element.master);
  } else {
    element.parameter = LoadOwn(t.p, at, n);
  }
  LoadOwn(t.m, at, n, element.m);
  LoadOwn(t.v, at, n, element.v);
}

__device__ __forceinline__ float SquareRoot(float x) {
#if TUNE_CPU
  return sqrtf(x);
#else
  float result;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

__device__ __forceinline__ void Step(Element& element, const Tensors& t, const Rule& rule,
                                     long long at, long long n) {
  float parameter[kVector];
#pragma unroll
  for (int e = 0; e < kVector; ++e) {
    const float g = At(element.gradient, e);
    const float m = rule.beta1 * element.m[e] + (1.0f - rule.beta1) * g;
    const float v = rule.beta2 * element.v[e] + (1.0f - rule.beta2) * g * g;
    const float before = MASTER ? element.master[e] : At(element.parameter, e);
    const float root = SquareRoot(v * rule.correction2) + rule.epsilon;
    parameter[e] = before * rule.kept - __fdividef(rule.rate * m, root);
    element.m[e] = m;
    element.v[e] = v;
  }
  StoreAt(t.p, at, n, Rounded(parameter));
  if constexpr (MASTER) StoreOwn(t.master, at, n, parameter);
  StoreOwn(t.m, at, n, element.m);
  StoreOwn(t.v, at, n, element.v);
}

extern "C" __global__ void __launch_bounds__(THREADS, kBlocksPerSm)
    adamw(Bits* p, float* master, const Bits* __restrict__ g, float* m, float* v, long long n,
          float rate, float decay, float beta1, float beta2, float epsilon, float correction1,
          float correction2) {
  const Tensors tensors = {p, master, g, m, v};
  const Rule rule = {1.0f - rate * decay, rate * correction1, beta1, beta2, epsilon, correction2};
  ForEachTile(n, [&](long long tile) {
    Element element[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) Fetch(element[i], tensors, ElementOf(tile, i), n);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) Step(element[i], tensors, rule, ElementOf(tile, i), n);
  });
}

#endif  // TUNE_REFERENCE
