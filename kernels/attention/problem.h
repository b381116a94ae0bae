// SPDX-License-Identifier: Apache-2.0
// Parts that every path shares: the problem's sizes, the order of the tiles and the element type.
#pragma once

#if defined(DTYPE_BF16)
#include <cuda_bf16.h>
#elif defined(DTYPE_F16)
#include <cuda_fp16.h>
#endif

using Element = DTYPE;

// Q and O are [batch, heads, seq, HEAD_DIM], K and V [batch, kv_heads, seq, HEAD_DIM], LSE is
// [batch, heads, seq].
struct Problem {
  int batch;
  int heads;
  int kv_heads;
  int seq;
  float scale;  // of the scores, before the softmax
};

// BLOCK_M rows of Q of one head, and the head of K and V they attend to.
struct Tile {
  int head;     // batch * heads
  int kv_head;  // batch * kv_heads
  int row;
};

__device__ __forceinline__ int KvHeadOf(const Problem& problem, int head) {
  const int group = problem.heads / problem.kv_heads;
  return head / problem.heads * problem.kv_heads + head % problem.heads / group;
}

// Tiles go section by section, SECTION heads at a time, so that the K and V in use stay in L2.
// Within a section the heads take turns and, under the causal mask, the longest tiles come first.
__device__ __forceinline__ Tile TileAt(const Problem& problem, int index) {
  const int blocks = (problem.seq + BLOCK_M - 1) / BLOCK_M;
  const int first = index / (SECTION * blocks) * SECTION;
  const int rest = index - first * blocks;
  const int left = problem.batch * problem.heads - first;
  const int count = left < SECTION ? left : SECTION;
  const int block = CAUSAL ? blocks - 1 - rest / count : rest / count;
  const int head = first + rest % count;
  return {head, KvHeadOf(problem, head), block * BLOCK_M};
}

// Blocks of K and V that the rows [row, row + count) need.
__device__ __forceinline__ int KvBlocks(const Problem& problem, int row, int count) {
  int end = problem.seq;
  if (CAUSAL && row + count < end) end = row + count;
  return (end + BLOCK_N - 1) / BLOCK_N;
}

// The end of the keys that a row sees.
__device__ __forceinline__ int KeyEnd(const Problem& problem, int row) {
  return CAUSAL && row + 1 < problem.seq ? row + 1 : problem.seq;
}

constexpr float kLog2E = 1.44269504088896341f;
constexpr float kLn2 = 0.69314718055994531f;
