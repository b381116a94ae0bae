// SPDX-License-Identifier: Apache-2.0
// A step of AdamW on a thread's vector of elements. Each kernel that includes this file has a copy
// of it, and a test holds the copies alike.
#pragma once

#include "element.cuh"

// What the kernel writes it reads by plain loads: others may come from a cache that is not told.

// Tensors of n elements each. The first `whole` of them may be accessed as vectors.
struct Span {
  long long n;
  long long whole;
};

// kVector floats of a state that the kernel writes, as wide as they are aligned.
constexpr int kFloats = Min(kVector, 4);
struct alignas(4 * kFloats) Floats {
  float of[kFloats];
};

__device__ __forceinline__ void LoadOwn(const float* x, long long at, const Span& span,
                                        float (&value)[kVector]) {
  if (at + kVector <= span.whole) {
#pragma unroll
    for (int i = 0; i < kVector; i += kFloats) {
      const Floats floats = *reinterpret_cast<const Floats*>(x + at + i);
#pragma unroll
      for (int e = 0; e < kFloats; ++e) value[i + e] = floats.of[e];
    }
  } else {
#pragma unroll
    for (int e = 0; e < kVector; ++e) value[e] = at + e < span.n ? x[at + e] : 0.0f;
  }
}

__device__ __forceinline__ void StoreOwn(float* x, long long at, const Span& span,
                                         const float (&value)[kVector]) {
  if (at + kVector <= span.whole) {
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
      if (at + e < span.n) x[at + e] = value[e];
    }
  }
}

// Of elements: how many of the vector at `at` there are.
__device__ __forceinline__ int Left(long long at, const Span& span) {
  return at + kVector <= span.n ? kVector : static_cast<int>(span.n - at);
}

__device__ __forceinline__ Vector LoadOwn(const Bits* x, long long at, const Span& span) {
  if (at + kVector <= span.whole) return *reinterpret_cast<const Vector*>(x + at);
  if (at >= span.n) return Filled(0);
  return LoadElements(x + at, 0, Left(at, span));
}

// Of a gradient, which nobody writes meanwhile.
__device__ __forceinline__ Vector LoadRead(const Bits* x, long long at, const Span& span) {
  if (at + kVector <= span.whole) return LoadVector(x + at);
  if (at >= span.n) return Filled(0);
  return LoadElements(x + at, 0, Left(at, span));
}

__device__ __forceinline__ void StoreOwn(Bits* x, long long at, const Span& span,
                                         const Vector& vector) {
  if (at + kVector <= span.whole) {
    StoreVector(x + at, vector);
  } else if (at < span.n) {
    StoreElements(x + at, 0, Left(at, span), vector);
  }
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
                                      const Span& span) {
  element.gradient = LoadRead(t.g, at, span);
  if constexpr (MASTER) {
    LoadOwn(t.master, at, span, element.master);
  } else {
    element.parameter = LoadOwn(t.p, at, span);
  }
  LoadOwn(t.m, at, span, element.m);
  LoadOwn(t.v, at, span, element.v);
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
                                     long long at, const Span& span) {
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
  StoreOwn(t.p, at, span, Rounded(parameter));
  if constexpr (MASTER) StoreOwn(t.master, at, span, parameter);
  StoreOwn(t.m, at, span, element.m);
  StoreOwn(t.v, at, span, element.v);
}
