// SPDX-License-Identifier: Apache-2.0
// The reference, all sums in f64. A block owns 8 or 16 rows: of K and V for dK and dV, or of Q and
// dO for dQ. It walks over all rows of the other pair, as many at a time, and shares nothing with
// the tuned paths but the names of the problem's sizes.
#pragma once

#include "backward_problem.h"

constexpr int kOwned = HEAD_DIM <= 128 ? 16 : 8;
constexpr int kOthers = kOwned;
#ifdef TUNE_CPU
constexpr int kColumns = 1;  // threads that share a row
#else
constexpr int kColumns = 8;
#endif
constexpr int kReferenceThreads = kOwned * kColumns;
constexpr int kDimsEach = HEAD_DIM / kColumns;
constexpr int kPitch = HEAD_DIM + 1;

struct ReferenceTiles {
  float owned[2][kOwned][kPitch];  // K and V, or Q and dO
  float other[2][kOthers][kPitch];
  double weight[kOwned][kOthers];
  double slope[kOwned][kOthers];  // of the scores
  double lse[kOwned];             // of the rows of Q
  double delta[kOwned];
  int begin[kOwned];  // the keys of the row's sequence
  int end[kOwned];
};

__device__ inline void LoadRows(float (&to)[kOwned][kPitch], const Element* head, int first,
                                int seq) {
  for (int i = threadIdx.x; i < kOwned * HEAD_DIM; i += kReferenceThreads) {
    const int row = first + i / HEAD_DIM;
    const long long at = static_cast<long long>(row) * HEAD_DIM + i % HEAD_DIM;
    to[i / HEAD_DIM][i % HEAD_DIM] = row < seq ? static_cast<float>(head[at]) : 0.0f;
  }
}

__device__ inline double Delta(const Element* out, const Element* dout, int row) {
  const long long at = static_cast<long long>(row) * HEAD_DIM;
  double sum = 0.0;
  for (int d = 0; d < HEAD_DIM; ++d) {
    sum += static_cast<double>(static_cast<float>(out[at + d])) *
           static_cast<double>(static_cast<float>(dout[at + d]));
  }
  return sum;
}

// For rows of Q: the log-sum-exp, the sum of dO * O, and the keys of the row's sequence.
__device__ inline void LoadFacts(ReferenceTiles& tiles, const Element* out, const Element* dout,
                                 const float* lse, int first, int seq, int keys, const int* starts,
                                 int sequences) {
  for (int i = threadIdx.x; i < kOwned; i += kReferenceThreads) {
    const int row = first + i;
    if (row >= seq) continue;
    tiles.lse[i] = lse[row];
    tiles.delta[i] = Delta(out, dout, row);
    tiles.begin[i] = 0;
    tiles.end[i] = keys;
    for (int sequence = 0; PACKED && sequence < sequences; ++sequence) {
      if (row < starts[sequence] || row >= starts[sequence + 1]) continue;
      tiles.begin[i] = starts[sequence];
      tiles.end[i] = starts[sequence + 1];
    }
  }
}

// The weights of the tile and the slopes of its scores. The owned rows are those of K if `is_keys`.
__device__ inline void Slopes(ReferenceTiles& tiles, bool is_keys, int owned, int others, int seq,
                              int keys, int window, float scale, float cap) {
  const int row = threadIdx.x / kColumns;
  for (int other = threadIdx.x % kColumns; other < kOthers; other += kColumns) {
    const int key = is_keys ? owned + row : others + other;
    const int query = is_keys ? others + other : owned + row;
    const int last = CAUSAL ? query + keys - seq : keys;  // of the keys that the row of Q sees
    const int fact = is_keys ? other : row;
    double weight = 0.0, slope = 0.0;
    if (query < seq && key >= tiles.begin[fact] && key < tiles.end[fact] && key <= last &&
        (!WINDOWED || key > last - window)) {
      double score = 0.0, dweight = 0.0;
      for (int d = 0; d < HEAD_DIM; ++d) {
        // The product of two 16-bit floats is exact in f32.
        score += tiles.owned[0][row][d] * tiles.other[0][other][d];
        dweight += tiles.owned[1][row][d] * tiles.other[1][other][d];
      }
      score *= scale;
      const double tangent = SOFTCAP ? tanh(score / cap) : 0.0;
      if (SOFTCAP) score = cap * tangent;
      weight = exp(score - tiles.lse[fact]);
      slope = weight * (dweight - tiles.delta[fact]) * (1.0 - tangent * tangent);
    }
    tiles.weight[row][other] = weight;
    tiles.slope[row][other] = slope;
  }
}

// The sums of a thread: its part of a row of dK and dV, or of dQ and nothing.
struct ReferenceSums {
  double slopes[kDimsEach];
  double weights[kDimsEach];
};

__device__ inline void AddRows(const ReferenceTiles& tiles, ReferenceSums& sums) {
  const int row = threadIdx.x / kColumns;
  const int column = threadIdx.x % kColumns;
  for (int i = 0; i < kOthers; ++i) {
    for (int d = 0; d < kDimsEach; ++d) {
      sums.slopes[d] += tiles.slope[row][i] * tiles.other[0][i][column + d * kColumns];
      sums.weights[d] += tiles.weight[row][i] * tiles.other[1][i][column + d * kColumns];
    }
  }
}

// The gradient of a head's sink: over all rows, minus the sink's weight times the sum of dO * O.
__device__ inline void SinkGradient(const float* sinks, const Element* out, const Element* dout,
                                    const float* lse, float* dsinks, int batch, int heads,
                                    int seq) {
  __shared__ double sums[kReferenceThreads];
  const int head = blockIdx.y;
  double sum = 0.0;
  for (int b = 0; b < batch; ++b) {
    const long long rows = static_cast<long long>(b * heads + head) * seq;
    for (int row = threadIdx.x; row < seq; row += kReferenceThreads) {
      sum -= exp(static_cast<double>(sinks[head]) - lse[rows + row]) *
             Delta(out + rows * HEAD_DIM, dout + rows * HEAD_DIM, row);
    }
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int i = 1; i < kReferenceThreads && threadIdx.x == 0; ++i) sum += sums[i];
  if (threadIdx.x == 0) dsinks[head] = static_cast<float>(sum);
}

// blockIdx.z is 0 for dK and dV, 1 for dQ, and 2 for the sinks.
extern "C" __global__ void attention_backward_reference(
    const Element* q, const Element* k, const Element* v, const float* sinks, const int* starts,
    const Element* out, const Element* dout, const float* lse, float* dq, float* dk, float* dv,
    float* dsinks, int batch, int heads, int kv_heads, int seq, int keys, int window, int sequences,
    float scale, float cap) {
  if (blockIdx.z == 2) {
    const bool is_first = blockIdx.x == 0 && blockIdx.y == 0;
    if (!SINKS && is_first && threadIdx.x == 0) dsinks[0] = 0.0f;
    if (SINKS && blockIdx.x == 0 && blockIdx.y < heads) {
      SinkGradient(sinks, out, dout, lse, dsinks, batch, heads, seq);
    }
    return;
  }
  __shared__ ReferenceTiles tiles;
  const bool is_keys = blockIdx.z == 0;
  const int group = heads / kv_heads;
  const int head = blockIdx.y;  // of all batches
  const int first = blockIdx.x * kOwned;
  const int owned_rows = is_keys ? keys : seq, other_rows = is_keys ? seq : keys;
  if (head >= batch * (is_keys ? kv_heads : heads) || first >= owned_rows) return;
  const long long owned_at = static_cast<long long>(head) * owned_rows * HEAD_DIM;
  LoadRows(tiles.owned[0], (is_keys ? k : q) + owned_at, first, owned_rows);
  LoadRows(tiles.owned[1], (is_keys ? v : dout) + owned_at, first, owned_rows);
  const auto load_facts = [&](int at, int row) {
    const long long rows = static_cast<long long>(at) * seq;
    LoadFacts(tiles, out + rows * HEAD_DIM, dout + rows * HEAD_DIM, lse + rows, row, seq, keys,
              starts, sequences);
  };
  if (!is_keys) load_facts(head, first);

  ReferenceSums sums = {};
  // The heads of a batch are multiples of the heads of K and V.
  const int first_other = is_keys ? head * group : head / group;
  const int others = is_keys ? group : 1;
  for (int other = first_other; other < first_other + others; ++other) {
    const long long other_at = static_cast<long long>(other) * other_rows * HEAD_DIM;
    for (int row = 0; row < other_rows; row += kOthers) {
      const int shift = keys - seq;
      const bool hidden =
          CAUSAL && (is_keys ? row + kOthers + shift <= first : row >= first + kOwned + shift);
      if (hidden) continue;
      __syncthreads();
      LoadRows(tiles.other[0], (is_keys ? q : k) + other_at, row, other_rows);
      LoadRows(tiles.other[1], (is_keys ? dout : v) + other_at, row, other_rows);
      if (is_keys) load_facts(other, row);
      __syncthreads();
      Slopes(tiles, is_keys, first, row, seq, keys, window, scale, cap);
      __syncthreads();
      AddRows(tiles, sums);
    }
  }
  const int row = first + threadIdx.x / kColumns;
  if (row >= owned_rows) return;
  for (int d = 0; d < kDimsEach; ++d) {
    const long long at =
        owned_at + static_cast<long long>(row) * HEAD_DIM + threadIdx.x % kColumns + d * kColumns;
    (is_keys ? dk : dq)[at] = static_cast<float>(sums.slopes[d] * scale);
    if (is_keys) dv[at] = static_cast<float>(sums.weights[d]);
  }
}
