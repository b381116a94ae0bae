// SPDX-License-Identifier: Apache-2.0
// The second step where blocks share tiles: C from the partial sums.
#pragma once

#include "epilogue.h"
#include "overlap.cuh"

#if SPLIT > 1 || STREAM_K > 0

constexpr int kCombineThreads = 256;

__device__ __forceinline__ void AddPart(Sums& sums, const float* part) {
  const Sums got = *reinterpret_cast<const Sums*>(part);
  for (int e = 0; e < kTogether; ++e) sums.at[e] += got.at[e];
}

#if STREAM_K > 0
// Block x of the grid, which is as wide as the first step's, has the tile that block x of that step
// had the first steps of. The blocks of y divide its elements.
__device__ __forceinline__ void Combine(const Problem& problem, const Output& output,
                                        const float* partials) {
  const SharedTile shared = Stream(problem, gridDim.x).SharedFrom(blockIdx.x);
  if (shared.count == 0) return;
  const Tile tile = TileAt(problem, shared.index, 0);
  constexpr int kSize = BLOCK_M * BLOCK_N;
  const int stride = gridDim.y * blockDim.x * kTogether;
  int i = (blockIdx.y * blockDim.x + threadIdx.x) * kTogether;
  for (; i < kSize; i += stride) {
    const int row = tile.row + i / BLOCK_N;
    const int column = tile.column + i % BLOCK_N;
    if (row >= problem.m || column >= problem.n) continue;
    Sums sums = {};
    for (int part = 0; part < shared.count; ++part) {
      AddPart(sums, partials + static_cast<long long>(shared.Place(part)) * kSize + i);
    }
    StoreTogether(problem, output, row, column, sums);
  }
}
#else
__device__ __forceinline__ void Combine(const Problem& problem, const Output& output,
                                        const float* partials) {
  const int size = problem.m * problem.n;  // which the spec keeps small
  const int stride = gridDim.x * blockDim.x * kTogether;
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * kTogether;
  for (; i < size; i += stride) {
    Sums sums = {};
#pragma unroll
    for (int split = 0; split < SPLIT; ++split) {
      AddPart(sums, partials + static_cast<long long>(split) * size + i);
    }
    StoreTogether(problem, output, i / problem.n, i % problem.n, sums);
  }
}
#endif

extern "C" __global__ void __launch_bounds__(kCombineThreads)
    gemm_combine(const float* partials, const Element* __restrict__ bias,
                 const Element* __restrict__ residual, const float* __restrict__ a_scale,
                 const float* __restrict__ b_scale, Element* __restrict__ out, int m, int n, int k,
                 float alpha) {
  const Output output = {bias, residual, a_scale, b_scale, out, nullptr, alpha};
  AwaitStepBefore();
  Combine({m, n, k}, output, partials);
}

#endif
