// SPDX-License-Identifier: Apache-2.0
// The plain path: CUDA cores, f32 throughout, tiles through shared memory. It is the only path of
// the CPU device, so every inner loop runs over contiguous floats with constant bounds.
#pragma once

#include "epilogue.h"

constexpr int kThreadsN = BLOCK_N / THREAD_N;
constexpr int kThreads = BLOCK_M / THREAD_M * kThreadsN;
constexpr int kBlocksPerSm = 1;

// Brings BLOCK_K by kSize of an operand into shared memory, its summed axis slowest; zero outside.
// `across`: in memory, too, the summed axis, of length k, is the slower one; `size` is the other's.
template <int kSize>
__device__ __forceinline__ void LoadTile(float (&tile)[BLOCK_K][kSize], const Input* data,
                                         bool across, int first, int size, int first_k, int k) {
  for (int i = threadIdx.x; i < BLOCK_K * kSize; i += kThreads) {
    const int y = across ? i / kSize : i % BLOCK_K;
    const int x = across ? i % kSize : i / BLOCK_K;
    const long long row = first_k + y;
    const long long column = first + x;
    const bool inside = row < k && column < size;
    const long long at = across ? row * size + column : column * k + row;
    tile[y][x] = inside ? static_cast<float>(data[at]) : 0.0f;
  }
}

__device__ __forceinline__ void StoreTile(const Problem& problem, const Output& output,
                                          const Tile& tile, int row, int column,
                                          const float (&sums)[THREAD_M][THREAD_N]) {
#if STREAM_K > 0
  if (tile.part != kWhole) {
    float* part = output.partials + static_cast<long long>(tile.part) * BLOCK_M * BLOCK_N;
    for (int i = 0; i < THREAD_M; ++i) {
      for (int j = 0; j < THREAD_N; ++j) part[(row + i) * BLOCK_N + column + j] = sums[i][j];
    }
    return;
  }
#endif
#pragma unroll
  for (int i = 0; i < THREAD_M; ++i) {
#pragma unroll
    for (int j = 0; j < THREAD_N; ++j) {
      const int r = tile.row + row + i;
      const int c = tile.column + column + j;
      if (r < problem.m && c < problem.n) {
        StoreOne(problem, output, tile.part, r, c, sums[i][j]);
      }
    }
  }
}

__device__ __forceinline__ void MultiplyTile(const Problem& problem, const Input* a,
                                             const Input* b, const Output& output,
                                             const Tile& tile) {
  __shared__ float a_tile[BLOCK_K][BLOCK_M];
  __shared__ float b_tile[BLOCK_K][BLOCK_N];
  const int row = threadIdx.x / kThreadsN * THREAD_M;
  const int column = threadIdx.x % kThreadsN * THREAD_N;
  float sums[THREAD_M][THREAD_N] = {};
  for (int step = tile.first; step < tile.end; ++step) {
    __syncthreads();
    LoadTile(a_tile, a, TRANSPOSE_A, tile.row, problem.m, step * BLOCK_K, problem.k);
    LoadTile(b_tile, b, !TRANSPOSE_B, tile.column, problem.n, step * BLOCK_K, problem.k);
    __syncthreads();
    for (int k = 0; k < BLOCK_K; ++k) {
#pragma unroll
      for (int i = 0; i < THREAD_M; ++i) {
        const float left = a_tile[k][row + i];
#pragma unroll
        for (int j = 0; j < THREAD_N; ++j) sums[i][j] += left * b_tile[k][column + j];
      }
    }
  }
  StoreTile(problem, output, tile, row, column, sums);
}

__device__ __forceinline__ void Multiply(const Problem& problem, const Input* a, const Input* b,
                                         const Output& output) {
#if STREAM_K > 0
  const Walk walk(problem, blockIdx.x, gridDim.x);
  for (int i = 0; i < walk.count; ++i) MultiplyTile(problem, a, b, output, walk.At(problem, i));
#else
  MultiplyTile(problem, a, b, output, TileAt(problem, blockIdx.x, 0));
#endif
}
