// SPDX-License-Identifier: Apache-2.0
// The online softmax on the accumulators of a tensor-core multiplication, which spreads a row over
// four neighbouring lanes: of each 8 columns a lane holds two, for rows lane / 4 and lane / 4 + 8.
#pragma once

#include "fast_math.cuh"
#include "problem.h"
#include "quad.cuh"

__device__ __forceinline__ float Infinity() { return __int_as_float(0x7f800000); }

// Relative error up to 2^-11.
__device__ __forceinline__ float Tanh(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// A lane's facts of its two rows: the largest score, and its own share of the sum of weights.
struct RowState {
  float max[2];
  float sum[2];
};

__device__ __forceinline__ void Reset(RowState& rows) {
  rows.max[0] = rows.max[1] = -Infinity();
  rows.sum[0] = rows.sum[1] = 0.0f;
}

// Hides the scores of keys that a row must not see. `visible` counts the keys from this block's
// first that each row sees; it may be negative or beyond the block.
template <int kCount>
__device__ __forceinline__ void Mask(float (&s)[kCount], const int (&visible)[2]) {
  const int column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i / 4 * 8 + i % 2 >= visible[i / 2 % 2] - column) s[i] = -Infinity();
  }
}

// Hides the scores before the window of a row. `hidden` counts the keys from this block's first
// that are before it; it may be negative or beyond the block.
template <int kCount>
__device__ __forceinline__ void MaskBefore(float (&s)[kCount], const int (&hidden)[2]) {
  const int column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i / 4 * 8 + i % 2 < hidden[i / 2 % 2] - column) s[i] = -Infinity();
  }
}

// The rows of one thread in one tile.
struct Rows {
  int begin[2];    // the first visible key
  int end[2];      // one past the last
  int last_begin;  // the largest of the warpgroup's or warp's, so that all of it masks or none
  int first_end;   // the smallest
};

// A lane has the rows `row` and `row + 8` of `count` that begin at `first`.
__device__ __forceinline__ Rows RowsAt(const Problem& problem, const Tile& tile, int row, int first,
                                       int count) {
  return {{KeyBegin(problem, tile, row), KeyBegin(problem, tile, row + 8)},
          {KeyEnd(tile, row), KeyEnd(tile, row + 8)},
          KeyBegin(problem, tile, first + count - 1),
          KeyEnd(tile, first)};
}

// Hides what the rows do not see of the first 2 kCount keys of block j.
template <int kCount>
__device__ __forceinline__ void MaskBlock(float (&s)[kCount], int j, const Rows& rows) {
  const int first = j * BLOCK_N;
  if (first + 2 * kCount > rows.first_end) {
    const int visible[2] = {rows.end[0] - first, rows.end[1] - first};
    Mask(s, visible);
  }
  if (WINDOWED && first < rows.last_begin) {
    const int hidden[2] = {rows.begin[0] - first, rows.begin[1] - first};
    MaskBefore(s, hidden);
  }
}

// Bends scores towards the cap.
template <int kCount>
__device__ __forceinline__ void Cap(float (&s)[kCount], const Scale& scale) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) s[i] = Tanh(s[i] * scale.to_cap);
}

// Turns scores into weights relative to the largest score so far. `alpha` is what sums made with
// the previous one must be multiplied by.
template <int kCount>
__device__ __forceinline__ void Weigh(float (&s)[kCount], RowState& rows, float scale_log2,
                                      float (&alpha)[2]) {
  // Both maxima come before all exponentials: another order made the best config 11 % slower.
  float max[2], shift[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    max[r] = rows.max[r];
#pragma unroll
    for (int i = 0; i < kCount; i += 4)
      max[r] = fmaxf(max[r], fmaxf(s[i + 2 * r], s[i + 2 * r + 1]));
    max[r] = QuadMax(max[r]);
    // A row that has seen no key yet keeps weights of zero instead of inf - inf.
    shift[r] = CAUSAL && max[r] == -Infinity() ? 0.0f : max[r] * scale_log2;
    alpha[r] = Exp2(rows.max[r] * scale_log2 - shift[r]);
    rows.max[r] = max[r];
    rows.sum[r] *= alpha[r];
  }
#pragma unroll
  for (int i = 0; i < kCount; i += 2) {
    const int r = i / 2 % 2;
    s[i] = Exp2(s[i] * scale_log2 - shift[r]);
    s[i + 1] = Exp2(s[i + 1] * scale_log2 - shift[r]);
    rows.sum[r] += s[i] + s[i + 1];
  }
}

template <int kCount>
__device__ __forceinline__ void Rescale(float (&o)[kCount], const float (&alpha)[2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) o[i] *= alpha[i / 2 % 2];
}

template <int kCount>
__device__ __forceinline__ void PackAll(const float (&s)[kCount], unsigned (&p)[kCount / 2]) {
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) p[i] = Pack(s[2 * i], s[2 * i + 1]);
}

// The end of a tile: O by the sum of weights, and the logarithm of the sum of exponentials, for
// the lane's rows `row` and `row + 8`. Each lane writes 16 bytes at a time.
template <int kCount>
__device__ __forceinline__ void Store(const Problem& problem, const Tile& tile, int row,
                                      float scale_log2, const RowState& rows,
                                      const float (&o)[kCount], const Results& results) {
  const int lane = threadIdx.x % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const RowEnd end = EndRow(problem, tile.head, rows.max[r] * scale_log2, QuadSum(rows.sum[r]));
    const bool inside = row + r * 8 < tile.seq;
    const int place = tile.start + row + r * 8;
    uint4* line = reinterpret_cast<uint4*>(results.out.Head(tile.batch, tile.head, place)) + lane;
#pragma unroll
    for (int i = 0; i < kCount / 16; ++i) {
      unsigned w[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float* pair = o + 16 * i + 4 * e + 2 * r;
        w[e] = Pack(pair[0] * end.factor, pair[1] * end.factor);
      }
      TransposeQuad(w);
      if (inside) line[i * 4] = make_uint4(w[0], w[1], w[2], w[3]);
    }
    if (inside && lane == 0) results.lse[LseIndex(problem, tile, place)] = end.lse;
  }
}
