// SPDX-License-Identifier: Apache-2.0
// The reference: two passes over the keys, one for the largest score of each row and one for its
// sums, all in f64. A block owns kReferenceRows rows of one head and stages kReferenceKeys keys at
// a time; it shares nothing with the tuned paths but the element type. Its arrays are contiguous.
#pragma once

#include "problem.h"

constexpr int kReferenceRows = 16;
constexpr int kReferenceKeys = HEAD_DIM > 128 ? 8 : 32;
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

// The keys [begin, end) are visible to a row.
struct Sight {
  int begin;
  int end;
};

__device__ inline Sight SightOf(int row, int seq, int keys, int window, const int* starts,
                                int sequences) {
  Sight sight = {0, keys};
#if PACKED
  for (int i = 0; i < sequences; ++i) {
    if (starts[i] <= row && row < starts[i + 1]) sight = {starts[i], starts[i + 1]};
  }
#endif
  const int last = row + keys - seq;  // under the causal mask
  if (CAUSAL && last + 1 < sight.end) sight.end = last + 1;
  if (WINDOWED && last + 1 - window > sight.begin) sight.begin = last + 1 - window;
  return sight;
}

__device__ inline float LoadOr0(const Element* head, int row, int end, int d) {
  return row < end ? static_cast<float>(head[static_cast<long long>(row) * HEAD_DIM + d]) : 0.0f;
}

// The scores of all rows against the keys from `first_key`; kHidden where a row must not look.
__device__ inline void ReferenceScores(ReferenceTiles& tiles, const Element* k, const Sight& sight,
                                       int first_key, int keys, float scale, float cap) {
  __syncthreads();
  for (int i = threadIdx.x; i < kReferenceKeys * HEAD_DIM; i += kReferenceThreads) {
    tiles.k[i % HEAD_DIM][i / HEAD_DIM] = LoadOr0(k, first_key + i / HEAD_DIM, keys, i % HEAD_DIM);
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
    const double score = SOFTCAP ? cap * tanh(sum[e] * scale / cap) : sum[e] * scale;
    tiles.score[row][key + e] = sight.begin <= at && at < sight.end ? score : kHidden;
  }
  __syncthreads();
}

extern "C" __global__ void attention_reference(const Element* q, const Element* k, const Element* v,
                                               const float* sinks, const int* starts, float* out,
                                               float* lse, int heads, int kv_heads, int seq,
                                               int keys, int window, int sequences, float scale,
                                               float cap) {
  __shared__ ReferenceTiles tiles;
  const int head = blockIdx.y % heads;
  const int batch = blockIdx.y / heads;
  const int first_row = blockIdx.x * kReferenceRows;
  const long long q_head = static_cast<long long>(blockIdx.y) * seq * HEAD_DIM;
  const long long kv_head = batch * kv_heads + head / (heads / kv_heads);
  q += q_head;
  k += kv_head * keys * HEAD_DIM;
  v += kv_head * keys * HEAD_DIM;
  for (int i = threadIdx.x; i < kReferenceRows * HEAD_DIM; i += kReferenceThreads) {
    tiles.q[i / HEAD_DIM][i % HEAD_DIM] = LoadOr0(q, first_row + i / HEAD_DIM, seq, i % HEAD_DIM);
  }
  const int row = threadIdx.x / kReferenceColumns;
  const int column = threadIdx.x % kReferenceColumns;
  const Sight sight = SightOf(first_row + row, seq, keys, window, starts, sequences);
  // The first and the last key of all rows of the block.
  const int last = first_row + kReferenceRows - 1 + keys - seq;
  const int end = CAUSAL && last + 1 < keys ? last + 1 : keys;
  int begin = WINDOWED ? first_row + 1 + keys - seq - window : 0;
  if (begin < 0) begin = 0;

  double max = SINKS ? sinks[head] : kHidden;
  for (int first = begin; first < end; first += kReferenceKeys) {
    ReferenceScores(tiles, k, sight, first, keys, scale, cap);
    for (int i = 0; i < kReferenceKeys; ++i) {
      max = tiles.score[row][i] > max ? tiles.score[row][i] : max;
    }
  }
  double sum = SINKS ? exp(sinks[head] - max) : 0.0;
  double o[kDimsEach] = {};
  for (int first = begin; first < end; first += kReferenceKeys) {
    ReferenceScores(tiles, k, sight, first, keys, scale, cap);
    for (int i = threadIdx.x; i < kReferenceKeys * HEAD_DIM; i += kReferenceThreads) {
      tiles.v[i / HEAD_DIM][i % HEAD_DIM] = LoadOr0(v, first + i / HEAD_DIM, keys, i % HEAD_DIM);
    }
    for (int i = column; i < kReferenceKeys; i += kReferenceColumns) {
      const double score = tiles.score[row][i];
      tiles.score[row][i] = score == kHidden ? 0.0 : exp(score - max);
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
  // A row that sees no key has zeros, and nothing to take a logarithm of.
  const double factor = sum == 0.0 ? 0.0 : 1.0 / sum;
  const long long at = q_head + static_cast<long long>(first_row + row) * HEAD_DIM;
  for (int d = 0; d < kDimsEach; ++d) {
    out[at + column * kDimsEach + d] = static_cast<float>(o[d] * factor);
  }
  if (column == 0) lse[at / HEAD_DIM] = static_cast<float>(max + log(sum));
}
