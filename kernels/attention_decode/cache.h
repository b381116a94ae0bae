// SPDX-License-Identifier: Apache-2.0
// Parts that every path shares: the paged cache, the keys of a block, how parts become a result.
#pragma once

#if defined(DTYPE_BF16)
#include <cuda_bf16.h>
#elif defined(DTYPE_F16)
#include <cuda_fp16.h>
#endif

#include "cluster.cuh"
#include "fast_math.cuh"

using Element = DTYPE;

// Q or O, [batch, QUERIES, heads, HEAD_DIM]. Strides are in elements; those of a row lie one behind
// the other.
template <typename T>
struct View {
  T* data;
  long long batch_stride;
  long long query_stride;
  long long head_stride;

  __device__ __forceinline__ T* Row(int batch, int query, int head) const {
    return data + batch * batch_stride + query * query_stride + head * head_stride;
  }
};

// Keys or values: as many pages of PAGE_SIZE in each of `batch` rows as a sequence has at most.
struct Cache {
  const Element* data;
  long long row_gap;  // from the end of a row to the next: 0 if pages are one axis
  long long page_stride;
  long long key_stride;
  long long head_stride;
};

// Page p of sequence b is the one that table[b * table_stride + p] names. Sequence b has seq keys
// less unused[b], one at least.
struct Problem {
  View<const Element> q;
  Cache k;
  Cache v;
  const int* table;
  long long table_stride;
  const int* unused;
  int batch;
  int heads;
  int seq;
  float scale;  // of the scores, before the softmax
};

// Parts of a sequence's keys that are left when a cluster has merged those of its blocks.
constexpr int kLeft = SPLIT / CLUSTER;

// The places of results: O and LSE, or with several parts left those of each, [kLeft, ...], in f32
// and with the LSE in units of log2.
struct Output {
  View<Element> out;
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

// The task as if the sequence were full: without a look at memory.
__device__ __forceinline__ Task FullTaskOfBlock(const Problem& problem) {
  return {static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.x),
          static_cast<int>(blockIdx.y), problem.seq};
}

__device__ __forceinline__ Task TaskOfBlock(const Problem& problem) {
  Task task = FullTaskOfBlock(problem);
  const int spare = problem.unused[task.batch];
  task.length -= spare < problem.seq ? spare : problem.seq - 1;
  return task;
}

constexpr int kGroup = ROWS / QUERIES;  // heads of Q that share one of K and V

__device__ __forceinline__ int HeadOf(const Task& task, int row) {
  return task.kv_head * kGroup + row % kGroup;
}

// A row of Q or O.
template <typename T>
__device__ __forceinline__ T* RowOf(const View<T>& view, const Task& task, int row) {
  return view.Row(task.batch, row / kGroup, HeadOf(task, row));
}

// The place of a row among the log-sum-exps of all rows.
__device__ __forceinline__ long long IndexOf(const Problem& problem, const Task& task, int row) {
  const long long query = static_cast<long long>(task.batch) * QUERIES + row / kGroup;
  return query * problem.heads + HeadOf(task, row);
}

// Keys that a row sees: of several queries, each those up to its own position.
__device__ __forceinline__ int KeysOf(const Task& task, int row) {
  const int hidden = QUERIES - 1 - row / kGroup;
  return task.length > hidden ? task.length - hidden : 1;
}

// Pieces of `size` keys that the sequence has, and the first that a split has.
__device__ __forceinline__ int Pieces(const Task& task, int size) {
  return (task.length + size - 1) / size;
}
__device__ __forceinline__ int FirstPiece(const Task& task, int size, int split) {
  return static_cast<int>(static_cast<long long>(Pieces(task, size)) * split / SPLIT);
}

// The row of the cache that has a page. Caches without gaps spare the division.
__device__ __forceinline__ int CacheRowOf(const Problem& problem, int page) {
  if (problem.k.row_gap == 0 && problem.v.row_gap == 0) return 0;
  return static_cast<unsigned>(page) / ((problem.seq + PAGE_SIZE - 1u) / PAGE_SIZE);
}

// A key, or a value, of a page.
__device__ __forceinline__ const Element* KeyOf(const Cache& cache, const Task& task, int row,
                                                int page, int key) {
  return cache.data + row * cache.row_gap + page * cache.page_stride +
         key % PAGE_SIZE * cache.key_stride + task.kv_head * cache.head_stride;
}

// The entry of the table that names a key's page.
__device__ __forceinline__ const int* EntryOf(const Problem& problem, const Task& task, int key) {
  return problem.table + task.batch * problem.table_stride + key / PAGE_SIZE;
}

__device__ __forceinline__ int PageOf(const Problem& problem, const Task& task, int key) {
  return *EntryOf(problem, task, key);
}

#if !defined(TUNE_CPU)
// Loads the page here: the compiler would move PageOf to its first use.
__device__ __forceinline__ int PageOfAtOnce(const Problem& problem, const Task& task, int key) {
  int page;
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(page) : "l"(EntryOf(problem, task, key)));
  return page;
}
#endif

constexpr float kLog2E = 1.44269504088896341f;
constexpr float kLn2 = 0.69314718055994531f;
constexpr float kNone = -1e30f;  // the largest score of no keys

// The sums of a part of a block: for each row the largest score, the sum of weights relative
// to it, and the weighted sum of values.
struct Part {
  float max[ROWS];
  float sum[ROWS];
  float o[ROWS][HEAD_DIM];
};

// The parts of a row, merged: the largest score, and the sum of weights relative to it.
struct Merged {
  float max;
  float sum;
};

// `each` is called with each part and its weight relative to the largest score.
template <int kParts, typename MaxOf, typename SumOf, typename Each>
__device__ __forceinline__ Merged Merge(MaxOf max_of, SumOf sum_of, Each each) {
  Merged merged = {kNone, 0.0f};
#pragma unroll
  for (int p = 0; p < kParts; ++p) merged.max = fmaxf(merged.max, max_of(p));
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    const float weight = Exp2(max_of(p) - merged.max);
    merged.sum += weight * sum_of(p);
    each(p, weight);
  }
  return merged;
}

// Writes an element of the result, or of what this block or cluster leaves to the next step.
__device__ __forceinline__ void Write(const Problem& problem, const Task& task,
                                      const Output& output, int row, int d, const Merged& merged,
                                      float o) {
  // The sum of no keys is 0, that of a row with NaN is NaN.
  const bool is_empty = merged.sum == 0.0f;
  const float inverse = is_empty ? 0.0f : 1.0f / merged.sum;
  const float lse = is_empty ? kNone : merged.max + log2f(merged.sum);
  const long long at = IndexOf(problem, task, row);
  if constexpr (kLeft > 1) {
    const long long rows = static_cast<long long>(problem.batch) * QUERIES * problem.heads;
    const long long place = task.split / CLUSTER * rows + at;
    output.split_out[place * HEAD_DIM + d] = o * inverse;
    if (d == 0) output.split_lse[place] = lse;
  } else {
    RowOf(output.out, task, row)[d] = static_cast<Element>(o * inverse);
    if (d == 0) output.lse[at] = lse * kLn2;
  }
}

#if CLUSTER > 1
// All that a block of a cluster is sent by the others: it merges its share of the elements.
constexpr int kShare = ROWS * HEAD_DIM / CLUSTER;
struct Gathered {
  float o[CLUSTER][kShare];
  float max[CLUSTER][ROWS];
  float sum[CLUSTER][ROWS];
};
static_assert(kShare % 4 == 0, "elements travel in fours");

__device__ __forceinline__ void Send(const float* slot, int rank, float x) {
  SendFloats(InBlock(rank, SharedAddress(slot)), InBlock(rank, Arrivals(0)), x);
}
__device__ __forceinline__ void SendFour(const float* slot, int rank, const float (&x)[4]) {
  SendFloats(InBlock(rank, SharedAddress(slot)), InBlock(rank, Arrivals(0)), x[0], x[1], x[2],
             x[3]);
}

// Finish for a block of a cluster: each sends what its parts come to, and none waits for
// another to have read it.
template <int kParts, int kThreads>
__device__ __forceinline__ void FinishInCluster(const Problem& problem, const Task& task,
                                                const Output& output, const Part* parts) {
  __shared__ __align__(16) Gathered gathered;
  const int own = task.split % CLUSTER;
  if (threadIdx.x == 0) Expect(0, sizeof(gathered));
  __syncwarp();  // The wait is one of whole warps.
  WaitForClusterStart();
  for (int i = threadIdx.x; i < ROWS * HEAD_DIM / 4; i += kThreads) {
    const int row = i / (HEAD_DIM / 4);
    const int d = i % (HEAD_DIM / 4) * 4;
    float o[4] = {};
    Merge<kParts>([&](int p) { return parts[p].max[row]; },
                  [&](int p) { return parts[p].sum[row]; },
                  [&](int p, float weight) {
#pragma unroll
                    for (int e = 0; e < 4; ++e) o[e] += weight * parts[p].o[row][d + e];
                  });
    SendFour(&gathered.o[own][i * 4 % kShare], i * 4 / kShare, o);
  }
  for (int i = threadIdx.x; i < ROWS * CLUSTER; i += kThreads) {
    const int row = i / CLUSTER;
    const Merged merged = Merge<kParts>([&](int p) { return parts[p].max[row]; },
                                        [&](int p) { return parts[p].sum[row]; },
                                        [](int, float) {});
    Send(&gathered.max[own][row], i % CLUSTER, merged.max);
    Send(&gathered.sum[own][row], i % CLUSTER, merged.sum);
  }
  AwaitArrivals(0);
  for (int i = threadIdx.x; i < kShare; i += kThreads) {
    const int row = (own * kShare + i) / HEAD_DIM;
    float o = 0.0f;
    const Merged merged = Merge<CLUSTER>(
        [&](int rank) { return gathered.max[rank][row]; },
        [&](int rank) { return gathered.sum[rank][row]; },
        [&](int rank, float weight) { o += weight * gathered.o[rank][i]; });
    Write(problem, task, output, row, (own * kShare + i) % HEAD_DIM, merged, o);
  }
}
#endif

// Merges the parts of a block, in shared memory, and those of the other blocks of its cluster, and
// writes what they come to. All threads have written their parts.
template <int kParts, int kThreads>
__device__ __forceinline__ void Finish(const Problem& problem, const Task& task,
                                       const Output& output, const Part* parts) {
#if CLUSTER > 1
  FinishInCluster<kParts, kThreads>(problem, task, output, parts);
#else
  for (int i = threadIdx.x; i < ROWS * HEAD_DIM; i += kThreads) {
    const int row = i / HEAD_DIM;
    const int d = i % HEAD_DIM;
    float o = 0.0f;
    const Merged merged =
        Merge<kParts>([&](int p) { return parts[p].max[row]; },
                      [&](int p) { return parts[p].sum[row]; },
                      [&](int p, float weight) { o += weight * parts[p].o[row][d]; });
    Write(problem, task, output, row, d, merged, o);
  }
#endif
}
