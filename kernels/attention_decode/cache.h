// SPDX-License-Identifier: Apache-2.0
// What every path shares: the paged cache, which keys a block has, and how parts become a result.
#pragma once

#if defined(DTYPE_BF16)
#include <cuda_bf16.h>
#elif defined(DTYPE_F16)
#include <cuda_fp16.h>
#endif

using Element = DTYPE;

// Q and O are [batch, QUERIES, heads, HEAD_DIM]. Keys and values are in pages of PAGE_SIZE; strides
// are in elements. Page p of sequence b is the one that table[b * table_batch + p * table_page]
// names. Sequence b has seq keys less unused[b], one at least.
struct Problem {
  const Element* q;
  const Element* k;
  const Element* v;
  const int* table;
  const int* unused;
  int batch;
  int heads;
  int kv_heads;
  int seq;
  int table_batch;
  int table_page;
  long long page_stride;
  long long key_stride;
  long long head_stride;
  float scale;  // of the scores, before the softmax
};

// Where results go: O and LSE, or with SPLIT > 1 those of each split, [SPLIT, ...], in f32 and with
// the LSE in units of log2.
struct Output {
  Element* out;
  float* lse;
  float* split_out;
  float* split_lse;
};

// ROWS rows of Q that share a head of K and V: QUERIES times heads / kv_heads of them.
struct Task {
  int batch;
  int kv_head;
  int split;
  int length;  // keys of the sequence
};

__device__ __forceinline__ Task TaskOfBlock(const Problem& problem) {
  const int batch = blockIdx.z;
  const int spare = problem.unused[batch];
  return {batch, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y),
          problem.seq - (spare < problem.seq ? spare : problem.seq - 1)};
}

// The place of a row among all rows of Q.
__device__ __forceinline__ long long RowOf(const Problem& problem, const Task& task, int row) {
  constexpr int kGroup = ROWS / QUERIES;
  const long long query = static_cast<long long>(task.batch) * QUERIES + row / kGroup;
  return query * problem.heads + task.kv_head * kGroup + row % kGroup;
}

// Keys that a row sees: of several queries, each those up to its own position.
__device__ __forceinline__ int KeysOf(const Task& task, int row) {
  const int hidden = QUERIES - 1 - row / (ROWS / QUERIES);
  return task.length > hidden ? task.length - hidden : 1;
}

// Pieces of `size` keys that the sequence has, and the first that a split has.
__device__ __forceinline__ int Pieces(const Task& task, int size) {
  return (task.length + size - 1) / size;
}
__device__ __forceinline__ int FirstPiece(const Task& task, int size, int split) {
  return static_cast<int>(static_cast<long long>(Pieces(task, size)) * split / SPLIT);
}

__device__ __forceinline__ int PageOf(const Problem& problem, const Task& task, int key) {
  return problem.table[task.batch * problem.table_batch + key / PAGE_SIZE * problem.table_page];
}

// Elements from the start of the cache to a key in its page.
__device__ __forceinline__ long long PlaceOf(const Problem& problem, const Task& task, int page,
                                             int key) {
  return page * problem.page_stride + key % PAGE_SIZE * problem.key_stride +
         task.kv_head * problem.head_stride;
}

constexpr float kLog2E = 1.44269504088896341f;
constexpr float kLn2 = 0.69314718055994531f;
constexpr float kNone = -1e30f;  // the largest score of no keys

__device__ __forceinline__ float Exp2(float x) {
#ifdef TUNE_CPU
  return exp2f(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

// What one part of a block has summed: for each row the largest score, the sum of weights relative
// to it, and the weighted sum of values.
struct Part {
  float max[ROWS];
  float sum[ROWS];
  float o[ROWS][HEAD_DIM];
};

// Merges the parts of a block, in shared memory, and writes what the block has to say. All threads
// have written their parts.
template <int kParts, int kThreads>
__device__ __forceinline__ void Finish(const Problem& problem, const Task& task,
                                       const Output& output, const Part* parts) {
  const long long rows = static_cast<long long>(problem.batch) * QUERIES * problem.heads;
  for (int i = threadIdx.x; i < ROWS * HEAD_DIM; i += kThreads) {
    const int row = i / HEAD_DIM;
    const int d = i % HEAD_DIM;
    float max = kNone;
#pragma unroll
    for (int p = 0; p < kParts; ++p) max = fmaxf(max, parts[p].max[row]);
    float sum = 0.0f;
    float o = 0.0f;
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const float weight = Exp2(parts[p].max[row] - max);
      sum += weight * parts[p].sum[row];
      o += weight * parts[p].o[row][d];
    }
    const float inverse = sum > 0.0f ? 1.0f / sum : 0.0f;
    const float lse = sum > 0.0f ? max + log2f(sum) : kNone;
    const long long at = RowOf(problem, task, row);
#if SPLIT > 1
    output.split_out[(task.split * rows + at) * HEAD_DIM + d] = o * inverse;
    if (d == 0) output.split_lse[task.split * rows + at] = lse;
#else
    output.out[at * HEAD_DIM + d] = static_cast<Element>(o * inverse);
    if (d == 0) output.lse[at] = lse * kLn2;
#endif
  }
}
