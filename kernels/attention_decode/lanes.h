// SPDX-License-Identifier: Apache-2.0
// The path of CUDA cores, and of the CPU device: LANES neighbouring threads share a key, each with
// a slice of the head for all rows. Keys and values go from the cache straight into registers,
// UNROLL keys at a time.
#pragma once

#include "cache.h"

constexpr int kThreads = THREADS;
constexpr int kBlocksPerSm = CTAS;
constexpr int kSlice = HEAD_DIM / LANES;
constexpr int kSharers = THREADS / LANES;  // keys that a block has at a time
#ifdef TUNE_CPU
constexpr int kWarp = LANES;  // threads that merge by shuffles
#else
constexpr int kWarp = 32;
#endif
constexpr int kParts = THREADS / kWarp;

// A thread's slice of a key or of a value, as it came.
struct alignas(kSlice % 8 == 0 ? 16 : 4) Slice {
  Element at[kSlice];
};

struct ThreadState {
  float q[ROWS][kSlice];  // scaled
  float o[ROWS][kSlice];
  float max[ROWS];
  float sum[ROWS];
};

__device__ __forceinline__ void Begin(const Problem& problem, const Task& task,
                                      ThreadState& state) {
  const int lane = threadIdx.x % LANES;
#pragma unroll
  for (int row = 0; row < ROWS; ++row) {
    const Element* from = RowOf(problem.q, task, row) + lane * kSlice;
#pragma unroll
    for (int e = 0; e < kSlice; ++e) {
      state.q[row][e] = static_cast<float>(from[e]) * (problem.scale * kLog2E);
      state.o[row][e] = 0.0f;
    }
    state.max[row] = kNone;
    state.sum[row] = 0.0f;
  }
}

// The scores of one row, in every thread of those that share the keys.
__device__ __forceinline__ void Scores(const ThreadState& state, int row,
                                       const Slice (&keys)[UNROLL], float (&scores)[UNROLL]) {
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    float sum = 0.0f;
#pragma unroll
    for (int e = 0; e < kSlice; ++e) {
      sum += state.q[row][e] * static_cast<float>(keys[u].at[e]);
    }
#if LANES > 1
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, step);
    }
#endif
    scores[u] = sum;
  }
}

// Adds UNROLL keys to one row. The keys are `first` and every kSharers-th from there.
__device__ __forceinline__ void AddKeys(const Task& task, ThreadState& state, int row, int first,
                                        const Slice (&keys)[UNROLL],
                                        const Slice (&values)[UNROLL]) {
  float weights[UNROLL];
  Scores(state, row, keys, weights);
  const int visible = KeysOf(task, row);
  float max = state.max[row];
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    if (first + u * kSharers < visible) max = fmaxf(max, weights[u]);
  }
  const float alpha = Exp2(state.max[row] - max);
  state.max[row] = max;
  state.sum[row] *= alpha;
#pragma unroll
  for (int e = 0; e < kSlice; ++e) state.o[row][e] *= alpha;
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    const float weight = first + u * kSharers < visible ? Exp2(weights[u] - max) : 0.0f;
    state.sum[row] += weight;
#pragma unroll
    for (int e = 0; e < kSlice; ++e) {
      state.o[row][e] += weight * static_cast<float>(values[u].at[e]);
    }
  }
}

#if !defined(TUNE_CPU)
// Merges what the threads of a warp have of the same slice.
__device__ __forceinline__ void MergeInWarp(ThreadState& state) {
#pragma unroll
  for (int row = 0; row < ROWS; ++row) {
#pragma unroll
    for (int step = LANES; step < 32; step *= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, state.max[row], step);
      const float max = fmaxf(state.max[row], other);
      const float mine = Exp2(state.max[row] - max);
      const float theirs = Exp2(other - max);
      state.max[row] = max;
      state.sum[row] =
          mine * state.sum[row] + theirs * __shfl_xor_sync(0xffffffffu, state.sum[row], step);
#pragma unroll
      for (int e = 0; e < kSlice; ++e) {
        const float there = __shfl_xor_sync(0xffffffffu, state.o[row][e], step);
        state.o[row][e] = mine * state.o[row][e] + theirs * there;
      }
    }
  }
}
#endif

__device__ __forceinline__ void Decode(const Problem& problem, const Output& output) {
  __shared__ Part parts[kParts];
  const Task task = TaskOfBlock(problem);
  const int lane = threadIdx.x % LANES;
  const int begin = FirstPiece(task, kSharers * UNROLL, task.split) * kSharers * UNROLL;
  const int end = FirstPiece(task, kSharers * UNROLL, task.split + 1) * kSharers * UNROLL;
  ThreadState state;
  Begin(problem, task, state);
  for (int first = begin + static_cast<int>(threadIdx.x) / LANES; first < end;
       first += kSharers * UNROLL) {
    Slice keys[UNROLL] = {};
    Slice values[UNROLL] = {};
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const int key = first + u * kSharers;
      if (key >= task.length) continue;
      const int page = PageOf(problem, task, key);
      const int row = CacheRowOf(problem, page);
      const Element* from = KeyOf(problem.k, task, row, page, key) + lane * kSlice;
      keys[u] = *reinterpret_cast<const Slice*>(from);
      from = KeyOf(problem.v, task, row, page, key) + lane * kSlice;
      values[u] = *reinterpret_cast<const Slice*>(from);
    }
#pragma unroll
    for (int row = 0; row < ROWS; ++row) AddKeys(task, state, row, first, keys, values);
  }
#if !defined(TUNE_CPU)
  MergeInWarp(state);
#endif
  Part& part = parts[threadIdx.x / kWarp];
  if (threadIdx.x % kWarp < LANES) {
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
      if (lane == 0) part.max[row] = state.max[row];
      if (lane == 0) part.sum[row] = state.sum[row];
#pragma unroll
      for (int e = 0; e < kSlice; ++e) part.o[row][lane * kSlice + e] = state.o[row][e];
    }
  }
  __syncthreads();
  Finish<kParts, kThreads>(problem, task, output, parts);
}
