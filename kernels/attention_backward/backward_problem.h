// SPDX-License-Identifier: Apache-2.0
// Parts that every step and path shares: the problem's sizes, a block's rows, and their order.
#pragma once

#if defined(DTYPE_BF16)
#include <cuda_bf16.h>
#elif defined(DTYPE_F16)
#include <cuda_fp16.h>
#endif

using Element = DTYPE;

constexpr float kLog2E = 1.44269504088896341f;
constexpr bool kIsShifted = CAUSAL && OTHER_KEYS;

// Q, O and their gradients are [batch, heads, seq, HEAD_DIM], K, V and theirs
// [batch, kv_heads, keys, HEAD_DIM], LSE is [batch, heads, seq]. A head is counted from the first
// of all batches. With PACKED the rows of a batch hold `sequences` of their own lengths, and a
// block enters one of them.
struct Problem {
  int batch;
  int heads;
  int kv_heads;
  int seq;
  int keys;    // seq without OTHER_KEYS, where both in registers would be one too many
  int window;  // WINDOWED: the most keys that a row of Q sees
  int sequences;
  float scale;        // of the scores, before the softmax
  float cap;          // SOFTCAP: what scores approach
  const int* starts;  // PACKED: the first row of each sequence, and the end of the last
  int rows;           // of a head in the arrays of Q and O
  int start;          // of the sequence, a row of the arrays
  int fact_start;     // of the sequence, a row of the facts

  __device__ int Group() const { return heads / kv_heads; }
  __device__ int KvHeadOf(int head) const {
    return head / heads * kv_heads + head % heads / Group();
  }
  __device__ int FirstHeadOf(int kv_head) const {
    return kv_head / kv_heads * heads + kv_head % kv_heads * Group();
  }
  // Row 0 of Q sees 1 + Shift() keys under the causal mask.
  __device__ int Shift() const { return kIsShifted ? keys - seq : 0; }
};

// Rows [begin, end), of which begin may be negative and end may be before it or negative.
struct Range {
  int begin;
  int end;
};

// The keys that a row of Q sees.
__device__ __forceinline__ Range KeysOf(const Problem& problem, int row) {
  const int end = row + 1 + problem.Shift();
  return {WINDOWED ? end - problem.window : 0, CAUSAL && end < problem.keys ? end : problem.keys};
}

// The rows of Q that see a key.
__device__ __forceinline__ Range QueriesOf(const Problem& problem, int key) {
  const int begin = key - problem.Shift();
  const bool leaves = WINDOWED && begin + problem.window < problem.seq;
  return {CAUSAL ? begin : 0, leaves ? begin + problem.window : problem.seq};
}

// The streamed rows that a held row has to do with, a key (kKeys) or a row of Q.
template <bool kKeys>
__device__ __forceinline__ Range SeenBy(const Problem& problem, int row) {
  return kKeys ? QueriesOf(problem, row) : KeysOf(problem, row);
}

// The sizes of a block's pairs of matrices.
template <bool kKeys>
struct Sides {
  int held_heads, held_rows;
  int streamed_heads, streamed_rows;

  __device__ __forceinline__ explicit Sides(const Problem& problem)
      : held_heads(kKeys ? problem.kv_heads : problem.heads),
        held_rows(kKeys ? problem.keys : problem.seq),
        streamed_heads(kKeys ? problem.heads : problem.kv_heads),
        streamed_rows(kKeys ? problem.seq : problem.keys) {}
};

// The way from one batch, head and row to the next, in elements.
struct Strides {
  long long batch;
  long long head;
  long long row;
};

// An array whose batches have `heads` heads each.
template <typename T>
struct View {
  T* data;
  Strides strides;

  __device__ __forceinline__ T* Row(int heads, int head, int row) const {
    return data + head / heads * strides.batch + head % heads * strides.head + row * strides.row;
  }
};

// The places of the gradients of held rows: dK and dV, parts of these that a later step adds,
// or dQ.
struct Gradients {
  View<Element> slopes;   // dK or dQ
  View<Element> weights;  // dV
  float* parts;           // [2, batch, kv_heads, PARTS, keys, HEAD_DIM]
};

// The facts that the first step leaves of each row of Q: its log-sum-exp in units of log2 and the
// sum of dO * O. Rows are kept in blocks of 64: 64 of the one, then 64 of the other. Rows past the
// end, two blocks more than there can be, have an infinite log-sum-exp and so weights of zero.
// Each of packed sequences begins with a pair of blocks, which is what a streamed tile spans.
constexpr int kFactRows = 64;
constexpr int kFactFloats = 2 * kFactRows;
constexpr int kFactPair = 2 * kFactRows;

__device__ __forceinline__ int FactBlocks(const Problem& problem) {
  if (PACKED) return 2 * (problem.rows / kFactPair + problem.sequences) + 2;
  return (problem.rows + kFactRows - 1) / kFactRows + 2;
}

__device__ __forceinline__ long long FactIndex(const Problem& problem, int head, int row) {
  if (PACKED) row += problem.fact_start;
  const long long block = static_cast<long long>(head) * FactBlocks(problem) + row / kFactRows;
  return block * kFactFloats + row % kFactRows;
}

// Makes the problem that of the packed sequence which the index-th tile of kRows rows is in, and
// returns the tile's first row there. Packed sequences have room for a tile more than they have
// whole ones: those of sequence i begin behind starts[i] / kRows + i others. A tile that a sequence
// does not need is behind its end.
template <int kRows>
__device__ __forceinline__ int EnterSequence(Problem& problem, int tile) {
  int index = 0;
  for (int end = problem.sequences; end - index > 1;) {
    const int middle = (index + end) / 2;
    if (problem.starts[middle] / kRows + middle <= tile) {
      index = middle;
    } else {
      end = middle;
    }
  }
  problem.start = problem.starts[index];
  problem.fact_start = (problem.start / kFactPair + index) * kFactPair;
  problem.seq = problem.keys = problem.starts[index + 1] - problem.start;
  return (tile - problem.start / kRows - index) * kRows;
}

// A block holds kHeld rows of one pair of matrices and streams the other pair past them, BLOCK_M
// rows at a time. It holds K and V for dK and dV (kKeys), and Q and dO for dQ.
constexpr int kHeld = BLOCK_N;

// PARTS blocks hold the same rows of K and V: each has a share of the heads that these serve.
struct Held {
  int head;  // of what it holds: batch * kv_heads if kKeys, else batch * heads
  int part;  // which share of the heads it has
  int row;
  int column;  // the first of the gradients' columns that are its
};

// COLUMN_PARTS blocks hold the same rows and make the same scores: each sums some columns of the
// gradients, for want of registers.
constexpr int kOwnColumns = HEAD_DIM / COLUMN_PARTS;

// Rows go section by section, SECTION heads (or parts of one) at a time, so that what is streamed
// stays in L2. Within a section the heads take turns and, under the causal mask, the longest
// streams come first.
// With PACKED the problem becomes that of a sequence, and the row may be behind its end.
template <bool kKeys>
__device__ __forceinline__ Held HeldBy(Problem& problem, int index) {
  const Sides<kKeys> sides(problem);
  const int blocks =
      PACKED ? problem.rows / kHeld + problem.sequences : (sides.held_rows + kHeld - 1) / kHeld;
  const int first = index / (SECTION * blocks) * SECTION;
  const int rest = index - first * blocks;
  const int parts = (kKeys ? PARTS : 1) * COLUMN_PARTS;
  const int left = problem.batch * sides.held_heads * parts - first;
  const int count = left < SECTION ? left : SECTION;
  const int block = CAUSAL && !kKeys ? blocks - 1 - rest / count : rest / count;
  const int head = first + rest % count;
  const int row = PACKED ? EnterSequence<kHeld>(problem, block) : block * kHeld;
  return {head / parts, head % parts / COLUMN_PARTS, row, head % COLUMN_PARTS * kOwnColumns};
}

// The blocks that are streamed past: of one head of K and V, or of the heads of Q that these serve
// and that the part has. Under the causal mask those that see nothing of what is held are left out.
template <bool kKeys>
struct Stream {
  // Whether there may be none: for keys before all windows, or for rows of Q before all keys.
  static constexpr bool kMayBeEmpty = kIsShifted && (WINDOWED || !kKeys);

  int first_head;
  int first_block;
  int blocks;  // of a head
  int count;   // of all heads
  int turn;    // the first head's blocks begin with this one

  __device__ __forceinline__ Stream(const Problem& problem, const Held& held) {
    const int begin = SeenBy<kKeys>(problem, held.row).begin;
    const int end = SeenBy<kKeys>(problem, held.row + kHeld - 1).end;
    const int heads = problem.Group() / PARTS;
    first_head =
        kKeys ? problem.FirstHeadOf(held.head) + held.part * heads : problem.KvHeadOf(held.head);
    first_block = begin > 0 ? begin / BLOCK_M : 0;
    blocks = (end + BLOCK_M - 1) / BLOCK_M - first_block;
    if (kMayBeEmpty && blocks < 0) blocks = 0;
    count = kKeys ? blocks * heads : blocks;
    turn = STAGGER && kKeys ? held.row / BLOCK_M % blocks : 0;
  }
  __device__ __forceinline__ int Head(int i) const { return first_head + i / blocks; }
  __device__ __forceinline__ int Row(int i) const {
    int block = i % blocks + turn;
    if (STAGGER && block >= blocks) block -= blocks;
    return (first_block + block) * BLOCK_M;
  }
};

// The first float of a part of dK (matrix 0) or dV (1) of the held head.
__device__ __forceinline__ long long PartIndex(const Problem& problem, const Held& held,
                                               int matrix) {
  const long long heads = problem.batch * problem.kv_heads;
  const int rows = PACKED ? problem.rows : problem.keys;
  const int start = PACKED ? problem.start : 0;
  const long long part = (matrix * heads + held.head) * PARTS + held.part;
  return (part * rows + start) * HEAD_DIM;
}

// How products of Q and K become scores in units of log2.
struct Scale {
  float to_cap;  // SOFTCAP: what they are multiplied by, before the hyperbolic tangent
  float log2;    // what they, or the tangents, are multiplied by
};

__device__ __forceinline__ Scale ScaleOf(const Problem& problem) {
  if (SOFTCAP) return {problem.scale / problem.cap, problem.cap * kLog2E};
  return {0.0f, problem.scale * kLog2E};
}
