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

__device__ __forceinline__ void Multiply(const Problem& problem, const Input* a,
                                         const Input* b, const Output& output) {
  __shared__ float a_tile[BLOCK_K][BLOCK_M];
  __shared__ float b_tile[BLOCK_K][BLOCK_N];
  const Tile tile = TileAt(problem, blockIdx.x, 0);
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
#pragma unroll
  for (int i = 0; i < THREAD_M; ++i) {
#pragma unroll
    for (int j = 0; j < THREAD_N; ++j) {
      const int r = tile.row + row + i;
      const int c = tile.column + column + j;
      if (r < problem.m && c < problem.n) {
        StoreOne(problem, output, tile.split, r, c, sums[i][j]);
      }
    }
  }
}
