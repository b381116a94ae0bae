// SPDX-License-Identifier: Apache-2.0
// What every path shares: the problem's sizes, how the work is cut, the order of the tiles.
#pragma once

#ifdef DTYPE_F16
#include <cuda_fp16.h>
#else
#include <cuda_bf16.h>
#endif

#ifdef DTYPE_E4M3
static_assert(!TRANSPOSE_A && TRANSPOSE_B, "rows of A and of B are contiguous in k");

// As its bits: CUDA's own type brings a header that takes longer to compile than this kernel.
struct E4m3 {
  unsigned char bits;

  __device__ __forceinline__ operator float() const {
    const unsigned size = bits & 0x7f;
    // Moves the exponent by 120 exactly, and makes subnormal numbers normal.
    const unsigned finite = __float_as_uint(__uint_as_float(size << 20) * 0x1p120f);
    const unsigned value = size == 0x7f ? 0x7fc00000u : finite;
    return __uint_as_float(value | (bits & 0x80u) << 24);
  }
};
using Input = E4m3;             // of A and B
using Element = __nv_bfloat16;  // of all else
#else
using Input = DTYPE;
using Element = DTYPE;
#endif
constexpr int kInputBytes = sizeof(Input);

// op(A) is [m, k], op(B) is [k, n], C is [m, n]; all row-major. A is stored [m, k], or [k, m] with
// TRANSPOSE_A; B is stored [k, n], or [n, k] with TRANSPOSE_B.
struct Problem {
  int m;
  int n;
  int k;

  __device__ int RowTiles() const { return (m + BLOCK_M - 1) / BLOCK_M; }
  __device__ int ColumnTiles() const { return (n + BLOCK_N - 1) / BLOCK_N; }
  __device__ int Steps() const { return (k + BLOCK_K - 1) / BLOCK_K; }
};

// A tile of C, or of one of its SPLIT partial sums. A block takes the steps [first, end) of k.
struct Tile {
  int row;
  int column;
  int split;
  int first;
  int end;
};

// Clusters of tiles: CLUSTER_M x CLUSTER_N of them are worked on at the same time, and each by
// CLUSTER_K blocks.
__device__ __forceinline__ int ClusterRows(const Problem& problem) {
  return (problem.RowTiles() + CLUSTER_M - 1) / CLUSTER_M;
}
__device__ __forceinline__ int ClusterColumns(const Problem& problem) {
  return (problem.ColumnTiles() + CLUSTER_N - 1) / CLUSTER_N;
}
__device__ __forceinline__ int Clusters(const Problem& problem) {
  return ClusterRows(problem) * ClusterColumns(problem) * SPLIT;
}

// The tile of block `rank` of a cluster. Clusters go down GROUP rows of C, then to the next column,
// so that those at work at the same time share what they read of A and B in L2.
__device__ __forceinline__ Tile TileAt(const Problem& problem, int index, int rank) {
  const int rows = ClusterRows(problem);
  const int columns = ClusterColumns(problem);
  const int split = index / (rows * columns);
  const int place = index % (rows * columns);
  const int first_row = place / (GROUP * columns) * GROUP;
  const int rest = place % (GROUP * columns);
  const int count = rows - first_row < GROUP ? rows - first_row : GROUP;
  const int row = (first_row + rest % count) * CLUSTER_M + rank % CLUSTER_M;
  const int column = rest / count * CLUSTER_N + rank / CLUSTER_M % CLUSTER_N;
  const int part = split * CLUSTER_K + rank / (CLUSTER_M * CLUSTER_N);
  const long long steps = problem.Steps();
  return {row * BLOCK_M, column * BLOCK_N, split,
          static_cast<int>(steps * part / (SPLIT * CLUSTER_K)),
          static_cast<int>(steps * (part + 1) / (SPLIT * CLUSTER_K))};
}
