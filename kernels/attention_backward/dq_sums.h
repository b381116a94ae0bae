// SPDX-License-Identifier: Apache-2.0
// The f32 sums of dQ, to which every block that holds keys adds. They lie as a warp has them: for
// 16 rows and 8 columns, the four sums of each lane. Rows are padded as the facts are.
#pragma once

#include "fragments.h"

constexpr int kRoundThreads = 256;
constexpr int kFragment = 128;            // sums of 16 rows and 8 columns
constexpr int kFragments = HEAD_DIM / 8;  // of 16 rows

// The first of a fragment: 16 rows from `row`, 8 columns from `column`.
__device__ __forceinline__ long long FragmentIndex(const Problem& problem, int head, int row,
                                                   int column) {
  if (PACKED) row += problem.fact_start;
  const long long strip =
      static_cast<long long>(head) * FactBlocks(problem) * (kFactRows / 16) + row / 16;
  return (strip * kFragments + column / 8) * kFragment;
}

// The place of a lane's i-th sum of a fragment: four lie together if one instruction can add four.
__device__ __forceinline__ int SumIndex(int i) {
  return kAddsFour ? threadIdx.x % 32 * 4 + i : i * 32 + threadIdx.x % 32;
}

__device__ __forceinline__ void AddFragment(float* fragment, const float* sums) {
  if (kAddsFour) {
    AddFour(fragment + SumIndex(0), sums);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) AddOne(fragment + SumIndex(i), sums[i]);
  }
}

// Each warp rounds 16 rows and 32 columns at a time.
__device__ __forceinline__ void RoundSums(Problem problem, const float* __restrict__ dq_sums,
                                          View<Element> dq) {
  constexpr int kParts = HEAD_DIM / 32;
  const int strips = PACKED ? FactBlocks(problem) * (kFactRows / 16) : (problem.seq + 15) / 16;
  const long long index =
      static_cast<long long>(blockIdx.x) * (kRoundThreads / 32) + threadIdx.x / 32;
  const int head = static_cast<int>(index / (strips * kParts));
  if (head >= problem.batch * problem.heads) return;
  const int rest = static_cast<int>(index % (strips * kParts));
  int row = rest / kParts * 16;
  if (PACKED) row = EnterSequence<kFactPair>(problem, row / kFactPair) + row % kFactPair;
  const int column = rest % kParts * 32;
  const float* from = dq_sums + FragmentIndex(problem, head, row, column);
  float sums[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) sums[i] = from[i / 4 * kFragment + SumIndex(i % 4)];
  dq.data += column;
  StoreRows(problem, problem.heads, head, row + threadIdx.x % 32 / 4, problem.seq, problem.scale,
            sums, dq);
}
