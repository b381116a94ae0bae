// SPDX-License-Identifier: Apache-2.0
// The last step where several blocks have a share of the heads of Q that a head of K and V serves:
// dK and dV are the sums of what each has made of its share.
#pragma once

#include "backward_problem.h"

constexpr int kAddThreads = 256;
constexpr int kAddEach = 4;  // neighbouring elements that a thread adds

struct alignas(16) PartFloats {
  float at[kAddEach];
};
struct alignas(8) PartElements {
  Element at[kAddEach];
};

// Blocks of the first half of the grid make dK, those of the second dV.
__device__ __forceinline__ void AddParts(const Problem& problem, const float* __restrict__ parts,
                                         const View<Element>& dk, const View<Element>& dv) {
  const long long head_size = static_cast<long long>(problem.keys) * HEAD_DIM;
  const long long size = problem.batch * problem.kv_heads * head_size;
  const int half = gridDim.x / 2;
  const int matrix = blockIdx.x < half ? 0 : 1;
  const long long thread =
      static_cast<long long>(blockIdx.x - matrix * half) * blockDim.x + threadIdx.x;
  const long long step = static_cast<long long>(half) * blockDim.x * kAddEach;
  for (long long i = thread * kAddEach; i < size; i += step) {
    const int head = static_cast<int>(i / head_size);
    const long long rest = i - head * head_size;
    const float* from = parts + (matrix * size + head * head_size) * PARTS + rest;
    PartFloats sums = {};
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
      const auto one = *reinterpret_cast<const PartFloats*>(from + part * head_size);
#pragma unroll
      for (int e = 0; e < kAddEach; ++e) sums.at[e] += one.at[e];
    }
    PartElements results;
#pragma unroll
    for (int e = 0; e < kAddEach; ++e) results.at[e] = static_cast<Element>(sums.at[e]);
    const int row = static_cast<int>(rest / HEAD_DIM);
    Element* to = (matrix == 0 ? dk : dv).Row(problem.kv_heads, head, row) + rest % HEAD_DIM;
    *reinterpret_cast<PartElements*>(to) = results;
  }
}
