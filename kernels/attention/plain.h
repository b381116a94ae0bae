// SPDX-License-Identifier: Apache-2.0
// The plain path: CUDA cores, f32 throughout, K and V through shared memory. It is the only path
// of the CPU device, so every inner loop runs over contiguous floats with constant bounds.
#pragma once

#include "problem.h"

constexpr int kThreads = THREADS;
constexpr int kBlocksPerSm = 1;

// LANES neighbouring threads hold a slice of the head dimension each, for kRows rows of Q.
constexpr int kRows = BLOCK_M * LANES / THREADS;
constexpr int kSlice = HEAD_DIM / LANES;
#ifdef TUNE_CPU
constexpr int kKeyPitch = BLOCK_N;
#else
constexpr int kKeyPitch = BLOCK_N + 8;  // Keeps the lanes' rows in different banks.
#endif

#ifdef TUNE_CPU
// 2^x for x <= 0 without a library call, so that a loop over it vectorises; 2e-7 relative.
__device__ __forceinline__ float Exp2(float x) {
  x = x < -126.0f ? -126.0f : x;
  const float shifted = x + 12582912.0f;  // 1.5 * 2^23: rounds to an integer in the low bits.
  const float f = x - (shifted - 12582912.0f);
  float p = 1.5403530e-4f;
  p = p * f + 1.3333558e-3f;
  p = p * f + 9.6181291e-3f;
  p = p * f + 5.5504109e-2f;
  p = p * f + 2.4022651e-1f;
  p = p * f + 6.9314718e-1f;
  p = p * f + 1.0f;
  union {
    float value;
    int bits;
  } n = {shifted}, result = {p};
  result.bits += static_cast<int>(static_cast<unsigned>(n.bits) << 23);
  return result.value;
}
#else
__device__ __forceinline__ float Exp2(float x) { return exp2f(x); }
#endif

struct PlainRows {
  float q[kRows][kSlice];
  float o[kRows][kSlice];
  float max[kRows];
  float sum[kRows];
};

// Brings BLOCK_N keys, transposed, and their values into shared memory; zero past the end. K and V
// begin at row 0.
__device__ __forceinline__ void LoadTile(const View<const Element>& k, const View<const Element>& v,
                                         int first, int end, float (&keys)[HEAD_DIM][kKeyPitch],
                                         float (&values)[BLOCK_N][HEAD_DIM]) {
  for (int n = threadIdx.x; n < BLOCK_N; n += kThreads) {
    const bool inside = first + n < end;
    const Element* row = k.Head(0, 0, inside ? first + n : 0);
    for (int d = 0; d < HEAD_DIM; ++d) keys[d][n] = inside ? static_cast<float>(row[d]) : 0.0f;
  }
  for (int i = threadIdx.x * 8; i < BLOCK_N * HEAD_DIM; i += kThreads * 8) {
    const int n = i / HEAD_DIM;
    const int d = i % HEAD_DIM;
    const bool inside = first + n < end;
    const Element* row = v.Head(0, 0, inside ? first + n : 0);
    for (int e = 0; e < 8; ++e) {
      values[n][d + e] = inside ? static_cast<float>(row[d + e]) : 0.0f;
    }
  }
}

// s = q k^T, the sum over this thread's slice, then over the lanes.
__device__ __forceinline__ void Scores(const PlainRows& rows, int lane,
                                       const float (&keys)[HEAD_DIM][kKeyPitch],
                                       float (&s)[kRows][BLOCK_N]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int n = 0; n < BLOCK_N; ++n) s[r][n] = 0.0f;
#pragma unroll
    for (int d = 0; d < kSlice; d += UNROLL) {
#pragma unroll
      for (int n = 0; n < BLOCK_N; ++n) {
        float sum = s[r][n];
#pragma unroll
        for (int e = 0; e < UNROLL; ++e) sum += rows.q[r][d + e] * keys[(d + e) * LANES + lane][n];
        s[r][n] = sum;
      }
    }
#if LANES > 1
#pragma unroll
    for (int n = 0; n < BLOCK_N; ++n) {
#pragma unroll
      for (int step = 1; step < LANES; step *= 2) {
        s[r][n] += __shfl_xor_sync(0xffffffffu, s[r][n], step);
      }
    }
#endif
  }
}

// Turns the scores of one row, which sees those from `hidden` to `visible`, into weights and
// rescales what the row has so far. The scores are in units of log2.
__device__ __forceinline__ void Reweigh(PlainRows& rows, int r, int hidden, int visible,
                                        float (&s)[BLOCK_N]) {
#pragma unroll
  for (int n = 0; n < BLOCK_N; ++n) s[n] = n < visible && !(WINDOWED && n < hidden) ? s[n] : -1e30f;
  float max = rows.max[r];
#pragma unroll
  for (int n = 0; n < BLOCK_N; ++n) max = s[n] > max ? s[n] : max;
  const float alpha = Exp2(rows.max[r] - max);
#pragma unroll
  for (int n = 0; n < BLOCK_N; ++n) {
    s[n] = n < visible && !(WINDOWED && n < hidden) ? Exp2(s[n] - max) : 0.0f;
  }
  float sum = 0.0f;
#pragma unroll
  for (int n = 0; n < BLOCK_N; ++n) sum += s[n];
  rows.max[r] = max;
  rows.sum[r] = rows.sum[r] * alpha + sum;
#pragma unroll
  for (int d = 0; d < kSlice; ++d) rows.o[r][d] *= alpha;
}

// o += p v.
__device__ __forceinline__ void AddValues(PlainRows& rows, int lane,
                                          const float (&p)[kRows][BLOCK_N],
                                          const float (&values)[BLOCK_N][HEAD_DIM]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int n = 0; n < BLOCK_N; n += UNROLL) {
#pragma unroll
      for (int d = 0; d < kSlice; ++d) {
        float sum = rows.o[r][d];
#pragma unroll
        for (int e = 0; e < UNROLL; ++e) sum += p[r][n + e] * values[n + e][d * LANES + lane];
        rows.o[r][d] = sum;
      }
    }
  }
}

__device__ __forceinline__ void Attend(const Problem& problem, const View<const Element>& q,
                                       View<const Element> k, View<const Element> v,
                                       const Results& results) {
  __shared__ float keys[HEAD_DIM][kKeyPitch];
  __shared__ float values[BLOCK_N][HEAD_DIM];
  const Tile tile = TileAt(problem, blockIdx.x);
  if (PACKED && tile.row >= tile.seq) return;
  const int lane = threadIdx.x % LANES;
  const int first_row = tile.row + threadIdx.x / LANES * kRows;
  k.data = k.Head(tile.batch, tile.kv_head, tile.start);
  v.data = v.Head(tile.batch, tile.kv_head, tile.start);

  PlainRows rows;
  const Scale scale = ScaleOf(problem);
  const float of_query = SOFTCAP ? scale.to_cap : scale.log2;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const bool inside = first_row + r < tile.seq;
    const Element* row = q.Head(tile.batch, tile.head, tile.start + first_row + r);
#pragma unroll
    for (int d = 0; d < kSlice; ++d) {
      rows.q[r][d] = inside ? static_cast<float>(row[d * LANES + lane]) * of_query : 0.0f;
      rows.o[r][d] = 0.0f;
    }
    rows.max[r] = -1e30f;
    rows.sum[r] = 0.0f;
  }
  const Blocks blocks = BlocksOf(problem, tile, tile.row, BLOCK_M);
  for (int j = blocks.first; j < blocks.end; ++j) {
    const int first = j * BLOCK_N;
    __syncthreads();
    LoadTile(k, v, first, tile.keys, keys, values);
    __syncthreads();
    float s[kRows][BLOCK_N];
    Scores(rows, lane, keys, s);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#if SOFTCAP
#pragma unroll
      for (int n = 0; n < BLOCK_N; ++n) s[r][n] = tanhf(s[r][n]) * scale.log2;
#endif
      Reweigh(rows, r, KeyBegin(problem, tile, first_row + r) - first,
              KeyEnd(tile, first_row + r) - first, s[r]);
    }
    AddValues(rows, lane, s, values);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (first_row + r >= tile.seq) continue;
    const int place = tile.start + first_row + r;
    const RowEnd end = EndRow(problem, tile.head, rows.max[r], rows.sum[r]);
    Element* to = results.out.Head(tile.batch, tile.head, place);
#pragma unroll
    for (int d = 0; d < kSlice; ++d) {
      to[d * LANES + lane] = static_cast<Element>(rows.o[r][d] * end.factor);
    }
    if (lane == 0) results.lse[LseIndex(problem, tile, place)] = end.lse;
  }
}
