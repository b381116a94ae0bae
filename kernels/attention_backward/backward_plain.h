// SPDX-License-Identifier: Apache-2.0
// The plain path: CUDA cores, f32 throughout. It is the only path of the CPU device, so every inner
// loop runs over contiguous floats with constant bounds.
#pragma once

#include "backward_problem.h"

constexpr int kThreads = THREADS;
constexpr int kBlocksPerSm = 1;
#ifdef TUNE_CPU
constexpr int kLanes = 1;  // neighbouring threads that share a row, with a slice of it each
#else
constexpr int kLanes = 8;
#endif
constexpr int kRows = BLOCK_N * kLanes / THREADS;  // held by a thread
constexpr int kSlice = HEAD_DIM / kLanes;

#ifdef TUNE_CPU
// 2^x without a library call, so that a loop over it vectorises; 2e-7 relative.
__device__ __forceinline__ float Exp2(float x) {
  x = x < -126.0f ? -126.0f : x > 127.0f ? 127.0f : x;
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

// BLOCK_M rows of a matrix that is streamed, for scores (transposed) and for sums.
struct StreamTile {
  float across[HEAD_DIM][BLOCK_M];
  float rows[BLOCK_M][HEAD_DIM];
};

__device__ __forceinline__ void LoadTile(StreamTile& tile, const Element* head, long long stride,
                                         int first, int end) {
  for (int i = threadIdx.x; i < BLOCK_M * HEAD_DIM; i += kThreads) {
    const int row = first + i / HEAD_DIM;
    const float value = row < end ? static_cast<float>(head[row * stride + i % HEAD_DIM]) : 0.0f;
    tile.rows[i / HEAD_DIM][i % HEAD_DIM] = value;
    tile.across[i % HEAD_DIM][i / HEAD_DIM] = value;
  }
}

// A thread's rows and its sums of them. `slopes` becomes dK or dQ, `weights` dV.
struct PlainRows {
  float held[2][kRows][kSlice];  // K and V, or Q and dO
  float slopes[kRows][kSlice];
  float weights[kRows][kSlice];
};

// s = held rows by streamed rows: the sum over this thread's slice, then over the lanes.
__device__ __forceinline__ void Multiply(const float (&held)[kRows][kSlice], int lane,
                                         const StreamTile& tile, float (&s)[kRows][BLOCK_M]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int m = 0; m < BLOCK_M; ++m) s[r][m] = 0.0f;
#pragma unroll
    for (int d = 0; d < kSlice; d += UNROLL) {
#pragma unroll
      for (int m = 0; m < BLOCK_M; ++m) {
        float sum = s[r][m];
#pragma unroll
        for (int e = 0; e < UNROLL; ++e) {
          sum += held[r][d + e] * tile.across[(d + e) * kLanes + lane][m];
        }
        s[r][m] = sum;
      }
    }
#pragma unroll
    for (int m = 0; m < (kLanes > 1 ? BLOCK_M : 0); ++m) {
#pragma unroll
      for (int step = 1; step < kLanes; step *= 2) {
        s[r][m] += __shfl_xor_sync(0xffffffffu, s[r][m], step);
      }
    }
  }
}

// sums += s by streamed rows.
__device__ __forceinline__ void AddRows(const float (&s)[kRows][BLOCK_M], int lane,
                                        const StreamTile& tile, float (&sums)[kRows][kSlice]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int m = 0; m < BLOCK_M; m += UNROLL) {
#pragma unroll
      for (int d = 0; d < kSlice; ++d) {
        float sum = sums[r][d];
#pragma unroll
        for (int e = 0; e < UNROLL; ++e) sum += s[r][m + e] * tile.rows[m + e][d * kLanes + lane];
        sums[r][d] = sum;
      }
    }
  }
}

// Weighs a row: from scores to weights in `s`, and from their slopes to the scores' in `t`. The
// streamed rows [begin, end) of the tile are visible. `step` is 1 where each of them has facts of
// its own.
__device__ __forceinline__ void Weigh(float (&s)[BLOCK_M], float (&t)[BLOCK_M], const Scale& scale,
                                      const float* facts, int step, int begin, int end) {
#pragma unroll
  for (int m = 0; m < BLOCK_M; ++m) {
    if (SOFTCAP) s[m] = tanhf(s[m] * scale.to_cap);
    const float slope = SOFTCAP ? 1.0f - s[m] * s[m] : 1.0f;  // of the cap
    const float weight = Exp2(s[m] * scale.log2 - facts[m * step]);
    s[m] = m >= begin && m < end ? weight : 0.0f;
    t[m] = s[m] * (t[m] - facts[m * step + kFactRows]) * slope;
  }
}

template <bool kKeys>
__device__ __forceinline__ void Walk(Problem problem, const View<const Element> (&held)[2],
                                     const View<const Element> (&streamed)[2], const float* facts,
                                     const Gradients& gradients) {
  __shared__ StreamTile tiles[2];
  const Held at = HeldBy<kKeys>(problem, blockIdx.x);
  if (PACKED && at.row >= problem.keys) return;
  const Stream<kKeys> stream(problem, at);
  const Sides<kKeys> sides(problem);
  const int lane = threadIdx.x % kLanes;
  const int first_row = at.row + threadIdx.x / kLanes * kRows;
  PlainRows rows = {};
#pragma unroll
  for (int i = 0; i < 2 * kRows; ++i) {
    const int matrix = i / kRows, r = i % kRows;
    if (first_row + r >= sides.held_rows) continue;
    const Element* from =
        held[matrix].Row(sides.held_heads, at.head, problem.start + first_row + r) + lane;
#pragma unroll
    for (int d = 0; d < kSlice; ++d) {
      rows.held[matrix][r][d] = static_cast<float>(from[d * kLanes]);
    }
  }
  for (int i = 0; i < stream.count; ++i) {
    const int row = stream.Row(i);
    __syncthreads();
    for (int matrix = 0; matrix < 2; ++matrix) {
      const View<const Element>& from = streamed[matrix];
      LoadTile(tiles[matrix], from.Row(sides.streamed_heads, stream.Head(i), problem.start),
               from.strides.row, row, sides.streamed_rows);
    }
    __syncthreads();
    float s[kRows][BLOCK_M], t[kRows][BLOCK_M];
    Multiply(rows.held[0], lane, tiles[0], s);
    Multiply(rows.held[1], lane, tiles[1], t);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int own = first_row + r;
      const int fact_row = kKeys ? row : own;
      const Range seen = SeenBy<kKeys>(problem, own);
      const int begin = seen.begin - row, end = (own < sides.held_rows ? seen.end : 0) - row;
      Weigh(s[r], t[r], ScaleOf(problem),
            facts + FactIndex(problem, kKeys ? stream.Head(i) : at.head, fact_row), kKeys, begin,
            end);
    }
    AddRows(t, lane, tiles[0], rows.slopes);
    if (kKeys) AddRows(s, lane, tiles[1], rows.weights);
  }
#pragma unroll
  for (int i = 0; i < kRows * kSlice; ++i) {
    const int row = first_row + i / kSlice;
    if (row >= sides.held_rows) continue;
    const float slope = rows.slopes[i / kSlice][i % kSlice] * problem.scale;
    const float weight = rows.weights[i / kSlice][i % kSlice];
    const int column = lane + i % kSlice * kLanes;
    if (kKeys && PARTS > 1) {
      float* part = gradients.parts + static_cast<long long>(row) * HEAD_DIM + column;
      part[PartIndex(problem, at, 0)] = slope;
      part[PartIndex(problem, at, 1)] = weight;
      continue;
    }
    const int place = problem.start + row;
    gradients.slopes.Row(sides.held_heads, at.head, place)[column] = static_cast<Element>(slope);
    if (!kKeys) continue;
    gradients.weights.Row(sides.held_heads, at.head, place)[column] = static_cast<Element>(weight);
  }
}
