// SPDX-License-Identifier: Apache-2.0
// Tensors of n elements in one piece, walked in tiles: a thread has ITEMS vectors of each tensor on
// their way before it uses the first.
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

// A thread's vectors of a tile, of those that are whole.
struct Vectors {
  static constexpr int kCount = ITEMS;
  long long tile;
  long long n;

  __device__ __forceinline__ bool IsWhole(int i) const { return ElementOf(tile, i) + kVector <= n; }

  __device__ __forceinline__ void Load(Vector (&to)[kCount], const Bits* x) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      to[i] = IsWhole(i) ? LoadVector(x + ElementOf(tile, i)) : Filled(0);
    }
  }
  __device__ __forceinline__ void Store(Bits* y, int i, const Vector& vector) const {
    if (IsWhole(i)) StoreVector(y + ElementOf(tile, i), vector);
  }
};

// An element by itself, as the first of a vector.
struct Single {
  static constexpr int kCount = 1;
  long long at;

  __device__ __forceinline__ void Load(Vector (&to)[kCount], const Bits* x) const {
    to[0] = Filled(x[at]);
  }
  __device__ __forceinline__ void Store(Bits* y, int, const Vector& vector) const {
    y[at] = static_cast<Bits>(vector.word[0]);
  }
};

// Calls `body` with the vectors of each tile of this block, and with the elements behind the last
// whole vector one by one: tests for each element of a vector would take longer to compile than all
// the rest. The last tile's last threads have these, since they have no vectors if it is not full.
template <typename Body>
__device__ __forceinline__ void ForEachTile(long long n, const Body& body) {
  const long long last = (n - 1) / kTile;
  long long at = blockIdx.x;
  if constexpr (GRID == tile) {
    body(Vectors{at, n});
    if (at != last) return;
  } else {
    for (; at <= last; at += gridDim.x) body(Vectors{at, n});
    if (at != last + gridDim.x) return;
  }
  at = n - n % kVector + (THREADS - 1 - static_cast<int>(threadIdx.x));
#pragma unroll 1
  for (; at < n; at += THREADS) body(Single{at});
}
