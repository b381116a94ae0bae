// SPDX-License-Identifier: Apache-2.0
// Tensors of n elements in one piece, walked in tiles: a thread has ITEMS vectors of each tensor on
// their way before it uses the first. Each kernel that includes this file has a copy of it, and a
// test holds the copies alike.
#pragma once

#include "element.cuh"

// Values of GRID: a block for each tile, or as many blocks as fit the device, which walk over them.
enum Grid { tile, resident };

constexpr int kBlocksPerSm = Max(1, Min(32, SM_THREADS / THREADS));
constexpr int kTile = THREADS * ITEMS * kVector;  // elements

// The first element of a thread's vector `item` in the tile.
__device__ __forceinline__ long long ElementOf(long long tile, int item) {
  return tile * kTile + (item * THREADS + static_cast<int>(threadIdx.x)) * kVector;
}

// Calls `body` with each tile of this block.
template <typename Body>
__device__ __forceinline__ void ForEachTile(long long n, const Body& body) {
  if constexpr (GRID == tile) {
    body(static_cast<long long>(blockIdx.x));
  } else {
    const long long tiles = (n + kTile - 1) / kTile;
    for (long long at = blockIdx.x; at < tiles; at += gridDim.x) body(at);
  }
}

// The vector at element `at`; what is behind the end is zero.
__device__ __forceinline__ Vector LoadAt(const Bits* x, long long at, long long n) {
  if (at + kVector <= n) return LoadVector(x + at);
  if (at >= n) return Filled(0);
  return LoadElements(x + at, 0, static_cast<int>(n - at));
}

__device__ __forceinline__ void StoreAt(Bits* y, long long at, long long n, const Vector& vector) {
  if (at + kVector <= n) {
    StoreVector(y + at, vector);
  } else if (at < n) {
    StoreElements(y + at, 0, static_cast<int>(n - at), vector);
  }
}

// A thread's vectors of one tensor in a tile.
struct Items {
  Vector vector[ITEMS];

  __device__ __forceinline__ void Load(const Bits* x, long long tile, long long n) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) vector[i] = LoadAt(x, ElementOf(tile, i), n);
  }
};
