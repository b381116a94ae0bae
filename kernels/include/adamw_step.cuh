// SPDX-License-Identifier: Apache-2.0
// A step of AdamW on some elements of a thread's.
#pragma once

#include "element.cuh"

// Tensors that the kernel writes are read by plain loads: others may come from a cache that does
// not see the stores.

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

__device__ __forceinline__ float SquareRoot(float x) {
#if TUNE_CPU
  return sqrtf(x);
#else
  float result;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

// The parameter after the step; moments become those after it.
__device__ __forceinline__ float Stepped(const Rule& rule, float before, float g, float& m,
                                         float& v) {
  m = rule.beta1 * m + (1.0f - rule.beta1) * g;
  v = rule.beta2 * v + (1.0f - rule.beta2) * g * g;
  const float root = SquareRoot(v * rule.correction2) + rule.epsilon;
  return before * rule.kept - __fdividef(rule.rate * m, root);
}

// ---- Whole vectors ------------------------------------------------------------------------------

// kVector floats of a state, as wide as they are aligned.
constexpr int kFloats = Min(kVector, 4);
struct alignas(4 * kFloats) Floats {
  float of[kFloats];
};

__device__ __forceinline__ void LoadFloats(const float* from, float (&value)[kVector]) {
#pragma unroll
  for (int i = 0; i < kVector; i += kFloats) {
    const Floats floats = *reinterpret_cast<const Floats*>(from + i);
#pragma unroll
    for (int e = 0; e < kFloats; ++e) value[i + e] = floats.of[e];
  }
}

__device__ __forceinline__ void StoreFloats(float* to, const float (&value)[kVector]) {
#pragma unroll
  for (int i = 0; i < kVector; i += kFloats) {
    Floats floats;
#pragma unroll
    for (int e = 0; e < kFloats; ++e) floats.of[e] = value[i + e];
    *reinterpret_cast<Floats*>(to + i) = floats;
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

__device__ __forceinline__ void Fetch(Element& element, const Tensors& t, long long at) {
  element.gradient = LoadVector(t.g + at);
  if constexpr (MASTER) {
    LoadFloats(t.master + at, element.master);
  } else {
    // By plain loads, as the step writes there. Of as many bytes as addresses are aligned to.
    element.parameter = {};
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const Piece piece = reinterpret_cast<const Piece*>(t.p + at)[i];
      memcpy(reinterpret_cast<char*>(&element.parameter) + i * kPieceBytes, &piece, kPieceBytes);
    }
  }
  LoadFloats(t.m + at, element.m);
  LoadFloats(t.v + at, element.v);
}

__device__ __forceinline__ void Step(Element& element, const Tensors& t, const Rule& rule,
                                     long long at) {
  float parameter[kVector];
#pragma unroll
  for (int e = 0; e < kVector; ++e) {
    const float before = MASTER ? element.master[e] : At(element.parameter, e);
    parameter[e] = Stepped(rule, before, At(element.gradient, e), element.m[e], element.v[e]);
  }
  StoreVector(t.p + at, Rounded(parameter));
  if constexpr (MASTER) StoreFloats(t.master + at, parameter);
  StoreFloats(t.m + at, element.m);
  StoreFloats(t.v + at, element.v);
}

// ---- Elements one by one ------------------------------------------------------------------------

// The step of `count` elements from `at` on, on their way together. Stores of one tensor follow
// each other, so that they leave L1 as whole sectors.
template <int count>
__device__ __forceinline__ void StepSingles(const Tensors& t, const Rule& rule, long long at) {
  float g[count];
  float parameter[count];
  float m[count];
  float v[count];
#pragma unroll
  for (int e = 0; e < count; ++e) g[e] = FloatOf(t.g[at + e]);
#pragma unroll
  for (int e = 0; e < count; ++e) {
    parameter[e] = MASTER ? t.master[at + e] : FloatOf(t.p[at + e]);
  }
#pragma unroll
  for (int e = 0; e < count; ++e) m[e] = t.m[at + e];
#pragma unroll
  for (int e = 0; e < count; ++e) v[e] = t.v[at + e];
#pragma unroll
  for (int e = 0; e < count; ++e) parameter[e] = Stepped(rule, parameter[e], g[e], m[e], v[e]);
#pragma unroll
  for (int e = 0; e < count; ++e) t.p[at + e] = BitsOf(parameter[e]);
#pragma unroll
  for (int e = 0; MASTER && e < count; ++e) t.master[at + e] = parameter[e];
#pragma unroll
  for (int e = 0; e < count; ++e) t.m[at + e] = m[e];
#pragma unroll
  for (int e = 0; e < count; ++e) t.v[at + e] = v[e];
}
