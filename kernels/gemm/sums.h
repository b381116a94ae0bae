// SPDX-License-Identifier: Apache-2.0
// Stores the sums of tensor cores. They spread a row over four neighbouring lanes: of each 8
// columns a lane has two, for rows lane / 4 and lane / 4 + 8.
#pragma once

#include "epilogue.h"
#include "fast_math.cuh"
#include "quad.cuh"

__device__ __forceinline__ void Unpack(unsigned packed, float& low, float& high) {
#ifdef DTYPE_F16
  const float2 both = __half22float2(*reinterpret_cast<const __half2*>(&packed));
  low = both.x;
  high = both.y;
#else
  low = __uint_as_float(packed << 16);
  high = __uint_as_float(packed & 0xffff0000u);
#endif
}

// Element by element: of rows of C that are no whole number of 16 bytes.
template <int kCount>
__device__ __forceinline__ void StoreEach(const Problem& problem, const Output& output, int part,
                                          int row, int column, const float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int r = row + i / 2 % 2 * 8;
    const int c = column + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
    if (r < problem.m && c < problem.n) StoreOne(problem, output, part, r, c, sums[i]);
  }
}

// Pairs of neighbouring columns, for warps that have 16 of them.
template <int kCount>
__device__ __forceinline__ void StorePairs(const Problem& problem, const Output& output, int row,
                                           int column, const float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; i += 2) {
    const int r = row + i / 2 % 2 * 8;
    const int c = column + i / 4 * 8 + threadIdx.x % 4 * 2;
    if (r >= problem.m || c >= problem.n) continue;
    const long long at = static_cast<long long>(r) * problem.n + c;
    float add_low = 0.0f, add_high = 0.0f;
    if (kHasResidual) {
      Unpack(*reinterpret_cast<const unsigned*>(output.residual + at), add_low, add_high);
    }
    *reinterpret_cast<unsigned*>(output.out + at) =
        Pack(ResultOf(output, r, c, sums[i], add_low),
             ResultOf(output, r, c + 1, sums[i + 1], add_high));
  }
}

// Without alpha and what follows it.
template <int kCount>
__device__ __forceinline__ void StorePartials(const Problem& problem, const Output& output,
                                              int part, int row, int column,
                                              const float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; i += 2) {
    const int r = row + i / 2 % 2 * 8;
    const int c = column + i / 4 * 8 + threadIdx.x % 4 * 2;
    const long long at = (static_cast<long long>(part) * problem.m + r) * problem.n + c;
    if (r < problem.m && c < problem.n) {
      *reinterpret_cast<float2*>(output.partials + at) = make_float2(sums[i], sums[i + 1]);
    }
  }
}

// Stores 16 bytes as one instruction: of an assignment under a condition the compiler made, in the
// wgmma path, four of 4 bytes each, and L2 took in up to four times as many sectors.
__device__ __forceinline__ void StoreVector(Element* to, const unsigned (&w)[4]) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(w[0]), "r"(w[1]),
               "r"(w[2]), "r"(w[3])
               : "memory");
}

// 32 columns from `column` of one row: each lane stores 8 of them as 16 bytes. `sums` has those of
// this lane at 0, 4, 8 and 12, two each.
__device__ __forceinline__ void StoreVectors(const Problem& problem, const Output& output, int row,
                                             int column, const float* sums) {
  const int lane = threadIdx.x % 4;
  const bool inside = row < problem.m && column + lane * 8 < problem.n;
  const long long at = static_cast<long long>(row) * problem.n + column + lane * 8;
  unsigned residual[4] = {};
  if (kHasResidual) {
    if (inside) {
      const uint4 got = *reinterpret_cast<const uint4*>(output.residual + at);
      residual[0] = got.x;
      residual[1] = got.y;
      residual[2] = got.z;
      residual[3] = got.w;
    }
    TransposeQuad(residual);
  }
  const float factor = kHasScales && row >= problem.m ? 0.0f : RowFactor(output, row);
  unsigned w[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    float low = factor * sums[4 * e];
    float high = factor * sums[4 * e + 1];
    float add_low = 0.0f, add_high = 0.0f;
    if (kHasResidual) Unpack(residual[e], add_low, add_high);
    const int c = column + e * 8 + lane * 2;
    if (kHasScales && c < problem.n) {
      const float2 scales = *reinterpret_cast<const float2*>(output.b_scale + c);
      low *= scales.x;
      high *= scales.y;
    }
    if (kHasBias && c < problem.n) {
      Unpack(*reinterpret_cast<const unsigned*>(output.bias + c), add_low, add_high);
    }
    w[e] = Pack(Activate(low + add_low), Activate(high + add_high));
  }
  TransposeQuad(w);
  if (inside) StoreVector(output.out + at, w);
}

#if STREAM_K > 0
// Stores sums to the place of the part of the tile.
template <int kCount>
__device__ __forceinline__ void StorePart(const Output& output, const Tile& tile, int row,
                                          int column, const float (&sums)[kCount]) {
  StorePartials(Problem{BLOCK_M, BLOCK_N, 0}, output, tile.part, row - tile.row,
                column - tile.column, sums);
}
#endif

// 16 rows by 2 kCount columns of a tile. `row` is this lane's first, `column` the first of all.
// The whole warp takes part.
template <int kCount>
__device__ __forceinline__ void StoreSums(const Problem& problem, const Output& output,
                                          const Tile& tile, int row, int column,
                                          const float (&sums)[kCount]) {
#if STREAM_K > 0
  if (tile.part != kWhole) return StorePart(output, tile, row, column, sums);
#endif
#if !C_VECTOR
  StoreEach(problem, output, tile.part, row, column, sums);
#elif SPLIT > 1
  StorePartials(problem, output, tile.part, row, column, sums);
#else
  if constexpr (kCount % 16 == 0) {
#pragma unroll
    for (int i = 0; i < kCount / 16; ++i) {
      StoreVectors(problem, output, row, column + i * 32, sums + 16 * i);
      StoreVectors(problem, output, row + 8, column + i * 32, sums + 16 * i + 2);
    }
  } else {
    StorePairs(problem, output, row, column, sums);
  }
#endif
}
