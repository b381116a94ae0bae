// SPDX-License-Identifier: Apache-2.0
// Parts that every path shares: the problem's sizes, the order of the tiles, the keys that a row
// sees, the end of a row and the element type.
#pragma once

#if defined(DTYPE_BF16)
#include <cuda_bf16.h>
#elif defined(DTYPE_F16)
#include <cuda_fp16.h>
#endif

using Element = DTYPE;

// Q and O are [batch, heads, seq, HEAD_DIM], K and V [batch, kv_heads, keys, HEAD_DIM], LSE is
// [batch, heads, seq]. With PACKED the rows of a batch hold `sequences` of their own lengths.
struct Problem {
  int batch;
  int heads;
  int kv_heads;
  int seq;
  int keys;
  int window;  // WINDOWED: the most keys that a row sees
  int sequences;
  float scale;         // of the scores, before the softmax
  float cap;           // SOFTCAP: what scores approach
  const float* sinks;  // SINKS: of each head, a score that takes weight and has no value
  const int* starts;   // PACKED: the first row of each sequence, and the end of the last
};

// The way from one batch, head and row to the next, in elements.
struct Strides {
  long long batch;
  long long head;
  long long row;
};

template <typename T>
struct View {
  T* data;
  Strides strides;

  __device__ __forceinline__ T* Head(int batch, int head, int row) const {
    return data + batch * strides.batch + head * strides.head + row * strides.row;
  }
};

struct Results {
  View<Element> out;
  float* lse;
};

// BLOCK_M rows of Q of one head, and the head of K and V they attend to.
struct Tile {
  int batch;
  int head;
  int kv_head;
  int row;    // of the sequence
  int start;  // of the sequence, a row of the arrays
  int seq;
  int keys;

  // Row 0 sees 1 + Shift() keys under the causal mask.
  __device__ __forceinline__ int Shift() const { return SHIFTED ? keys - seq : 0; }
};

__device__ __forceinline__ long long LseIndex(const Problem& problem, const Tile& tile, int row) {
  return static_cast<long long>(tile.batch * problem.heads + tile.head) * problem.seq + row;
}

// The tiles of a head. Packed sequences have room for a tile more than they have whole ones: those
// of sequence i begin behind starts[i] / BLOCK_M + i others.
__device__ __forceinline__ int TilesOfHead(const Problem& problem) {
  if (PACKED) return problem.seq / BLOCK_M + problem.sequences;
  return (problem.seq + BLOCK_M - 1) / BLOCK_M;
}

// Finds the rows of a head's tile. The room that a packed sequence does not need is behind its end.
__device__ __forceinline__ void FindRows(const Problem& problem, int block, Tile& tile) {
  int first = 0;  // tiles of the sequences before
  tile.start = 0;
  tile.seq = problem.seq;
  tile.keys = problem.keys;
  if (PACKED) {
    int index = 0;
    for (int end = problem.sequences; end - index > 1;) {
      const int middle = (index + end) / 2;
      if (problem.starts[middle] / BLOCK_M + middle <= block) {
        index = middle;
      } else {
        end = middle;
      }
    }
    tile.start = problem.starts[index];
    tile.seq = tile.keys = problem.starts[index + 1] - tile.start;
    first = tile.start / BLOCK_M + index;
  }
  tile.row = (block - first) * BLOCK_M;
}

// Tiles go section by section, SECTION heads at a time, so that the K and V in use stay in L2.
// Within a section the heads take turns and, under the causal mask, the longest tiles come first.
__device__ __forceinline__ Tile TileAt(const Problem& problem, int index) {
  const int blocks = TilesOfHead(problem);
  const int first = index / (SECTION * blocks) * SECTION;
  const int rest = index - first * blocks;
  const int left = problem.batch * problem.heads - first;
  const int count = left < SECTION ? left : SECTION;
  const int head = first + rest % count;
  Tile tile;
  tile.batch = head / problem.heads;
  tile.head = head % problem.heads;
  tile.kv_head = tile.head / (problem.heads / problem.kv_heads);
  FindRows(problem, CAUSAL ? blocks - 1 - rest / count : rest / count, tile);
  return tile;
}

// The keys [KeyBegin, KeyEnd) are those that a row sees. The first may be negative; with SHIFTED
// the end may be, too.
__device__ __forceinline__ int KeyEnd(const Tile& tile, int row) {
  const int end = row + 1 + tile.Shift();
  return CAUSAL && end < tile.keys ? end : tile.keys;
}

__device__ __forceinline__ int KeyBegin(const Problem& problem, const Tile& tile, int row) {
  return WINDOWED ? row + 1 + tile.Shift() - problem.window : 0;
}

// Blocks [first, end) of K and V.
struct Blocks {
  int first;
  int end;
};

// The blocks that the rows [row, row + count) see.
__device__ __forceinline__ Blocks BlocksOf(const Problem& problem, const Tile& tile, int row,
                                           int count) {
  int end = KeyEnd(tile, row + count - 1);
  if (SHIFTED && end < 0) end = 0;
  const int begin = KeyBegin(problem, tile, row);
  return {begin > 0 ? begin / BLOCK_N : 0, (end + BLOCK_N - 1) / BLOCK_N};
}

constexpr float kLog2E = 1.44269504088896341f;
constexpr float kLn2 = 0.69314718055994531f;

// How products of Q and K become scores in units of log2.
struct Scale {
  float to_cap;  // SOFTCAP: what they are multiplied by, before the hyperbolic tangent
  float log2;    // what they, or the tangents, are multiplied by
};

__device__ __forceinline__ Scale ScaleOf(const Problem& problem) {
  if (SOFTCAP) return {problem.scale / problem.cap, problem.cap * kLog2E};
  return {0.0f, problem.scale * kLog2E};
}

// The factor of a row's sums of weighted values, and the row's log-sum-exp.
struct RowEnd {
  float factor;
  float lse;
};

// The largest score of the row is in units of log2.
__device__ __forceinline__ RowEnd EndRow(const Problem& problem, int head, float max, float sum) {
  if (SINKS) {
    const float sink = problem.sinks[head] * kLog2E;
    const float top = sink > max ? sink : max;
    const float kept = exp2f(max - top);
    sum = sum * kept + exp2f(sink - top);
    return {kept / sum, (top + log2f(sum)) * kLn2};
  }
  // A row that sees no key has a sum of zero.
  return {SHIFTED && sum == 0.0f ? 0.0f : 1.0f / sum, (max + log2f(sum)) * kLn2};
}
