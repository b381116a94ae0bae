// SPDX-License-Identifier: Apache-2.0
// The reference: two passes over the keys, one for the largest score of each row and one for its
// sums, all in f64. A block owns kReferenceRows rows of one head and stages kReferenceKeys keys at
// a time; it shares nothing with the tuned paths.
#pragma once

#include "problem.h"

constexpr int kReferenceRows = 16;
constexpr int kReferenceKeys = 32;
#ifdef TUNE_CPU
constexpr int kReferenceColumns = 1;  // threads that share a row
#else
constexpr int kReferenceColumns = 8;
#endif
constexpr int kReferenceThreads = kReferenceRows * kReferenceColumns;
constexpr int kKeysEach = kReferenceKeys / kReferenceColumns;
constexpr int kDimsEach = HEAD_DIM / kReferenceColumns;
constexpr double kHidden = -1e300;  // the score of a key that must not be seen

struct ReferenceTiles {
  float q[kReferenceRows][HEAD_DIM];
  float k[HEAD_DIM][kReferenceKeys];
  float v[kReferenceKeys][HEAD_DIM];
  double score[kReferenceRows][kReferenceKeys];
};

__device__ inline float LoadOr0(const Element* head, int row, int seq, int d) {
  return row < seq ? static_cast<float>(head[static_cast<long long>(row) * HEAD_DIM + d]) : 0.0f;
}

// The scores of all rows against the keys from `first_key`; kHidden where a row must not look.
__device__ inline void ReferenceScores(ReferenceTiles& tiles, const Element* k, int first_row,
                                       int first_key, int seq, float scale) {
  __syncthreads();
  for (int i = threadIdx.x; i < kReferenceKeys * HEAD_DIM; i += kReferenceThreads) {
    tiles.k[i % HEAD_DIM][i / HEAD_DIM] = LoadOr0(k, first_key + i / HEAD_DIM, seq, i % HEAD_DIM);
  }
  __syncthreads();
  const int row = threadIdx.x / kReferenceColumns;
  const int key = threadIdx.x % kReferenceColumns * kKeysEach;
  double sum[kKeysEach] = {};
  for (int d = 0; d < HEAD_DIM; ++d) {
    // The product of two 16-bit floats is exact in f32.
    for (int e = 0; e < kKeysEach; ++e) sum[e] += tiles.q[row][d] * tiles.k[d][key + e];
  }
  for (int e = 0; e < kKeysEach; ++e) {
    const int at = first_key + key + e;
    const bool visible = at < seq && (!CAUSAL || at <= first_row + row);
    tiles.score[row][key + e] = visible ? sum[e] * scale : kHidden;
  }
  __syncthreads();
}

extern "C" __global__ void attention_reference(const Element* q, const Element* k, const Element* v,
                                               float* out, float* lse, int batch, int heads,
                                               int kv_heads, int seq, float scale) {
  __shared__ ReferenceTiles tiles;
  const Problem problem = {batch, heads, kv_heads, seq, scale};
  const int head = blockIdx.y;
  const int first_row = blockIdx.x * kReferenceRows;
  const long long size = static_cast<long long>(seq) * HEAD_DIM;
  q += head * size;
  k += KvHeadOf(problem, head) * size;
  v += KvHeadOf(problem, head) * size;
  for (int i = threadIdx.x; i < kReferenceRows * HEAD_DIM; i += kReferenceThreads) {
    tiles.q[i / HEAD_DIM][i % HEAD_DIM] = LoadOr0(q, first_row + i / HEAD_DIM, seq, i % HEAD_DIM);
  }
  const int row = threadIdx.x / kReferenceColumns;
  const int column = threadIdx.x % kReferenceColumns;
  const int end = CAUSAL && first_row + kReferenceRows < seq ? first_row + kReferenceRows : seq;

  double max = kHidden;
  for (int first = 0; first < end; first += kReferenceKeys) {
    ReferenceScores(tiles, k, first_row, first, seq, scale);
    for (int i = 0; i < kReferenceKeys; ++i) {
      max = tiles.score[row][i] > max ? tiles.score[row][i] : max;
    }
  }
  double sum = 0.0;
  double o[kDimsEach] = {};
  for (int first = 0; first < end; first += kReferenceKeys) {
    ReferenceScores(tiles, k, first_row, first, seq, scale);
    for (int i = threadIdx.x; i < kReferenceKeys * HEAD_DIM; i += kReferenceThreads) {
      tiles.v[i / HEAD_DIM][i % HEAD_DIM] = LoadOr0(v, first + i / HEAD_DIM, seq, i % HEAD_DIM);
    }
    for (int i = column; i < kReferenceKeys; i += kReferenceColumns) {
      tiles.score[row][i] = exp(tiles.score[row][i] - max);
    }
    __syncthreads();
    for (int i = 0; i < kReferenceKeys; ++i) {
      const double weight = tiles.score[row][i];
      sum += weight;
      for (int d = 0; d < kDimsEach; ++d) {
        o[d] += weight * tiles.v[i][column * kDimsEach + d];
      }
    }
  }
  if (first_row + row >= seq) return;
  const long long at = static_cast<long long>(head) * seq + first_row + row;
  for (int d = 0; d < kDimsEach; ++d) {
    out[at * HEAD_DIM + column * kDimsEach + d] = static_cast<float>(o[d] / sum);
  }
  if (column == 0) lse[at] = static_cast<float>(max + log(sum));
}
