// SPDX-License-Identifier: Apache-2.0
// The rows that a norm is taken of: those of x or, if RESIDUAL, of x + residual.
#pragma once

#include "rows.cuh"

// The row of a thread in turn `turn`: a block, or a cluster, takes TURNS times ROWS rows, one after
// the other, so that it loads the weights once for all of them.
__device__ __forceinline__ Row RowOfTurn(int turn, long long rows) {
  return RowAt((blockIdx.x / CLUSTER * static_cast<long long>(TURNS) + turn) * ROWS +
                   threadIdx.x / ROW_THREADS,
               rows);
}

class Summed {
 public:
  // Starts to fetch a thread's part of a row.
  __device__ __forceinline__ void Fetch(const Bits* x, const Bits* residual, const Row& row) {
    x_.Fetch(x, row, 0);
    if constexpr (RESIDUAL) residual_.Fetch(residual, row, 1);
  }

  // Item i, not rounded.
  __device__ __forceinline__ void Get(const Row& row, int i, float (&value)[kVector]) const {
    x_.Get(row, i, value);
    if constexpr (RESIDUAL) {
      float other[kVector];
      residual_.Get(row, i, other);
#pragma unroll
      for (int e = 0; e < kVector; ++e) value[e] += other[e];
    }
  }

  // Gets an item, and stores it if it is a sum.
  __device__ __forceinline__ void GetAndStore(const Row& row, int i, float (&value)[kVector],
                                              Bits* sum) const {
    Get(row, i, value);
    if constexpr (RESIDUAL) Store(sum, row, i, Rounded(value));
  }

 private:
  Share<> x_;
  Share<> residual_;
};
