// SPDX-License-Identifier: Apache-2.0
// The first step: of each row of Q, the sum of dO * O and the log-sum-exp in units of log2. Padding
// rows, and those that see no key, get what makes their weights zero.
#pragma once

#include "backward_problem.h"

constexpr int kFactThreads = 128;
constexpr int kVector = 8;  // elements of 16 bytes
constexpr int kVectors = HEAD_DIM / kVector;

struct alignas(16) Vector {
  Element element[kVector];
};

// ROW_LANES neighbouring threads share a row. `index` counts rows with the padding of each head.
__device__ __forceinline__ void StoreFacts(Problem problem, const View<const Element>& out,
                                           const View<const Element>& dout,
                                           const float* __restrict__ lse,
                                           float* __restrict__ facts) {
  const int thread = threadIdx.x % ROW_LANES;
  const int padded = FactBlocks(problem) * kFactRows;
  const long long index =
      static_cast<long long>(blockIdx.x) * (kFactThreads / ROW_LANES) + threadIdx.x / ROW_LANES;
  const int head = static_cast<int>(index / padded);
  int row = static_cast<int>(index % padded);
  if (PACKED) row = EnterSequence<kFactPair>(problem, row / kFactPair) + row % kFactPair;
  const bool inside = head < problem.batch * problem.heads && row < problem.seq;
  float sum = 0.0f;
  if (inside) {
    const auto* o =
        reinterpret_cast<const Vector*>(out.Row(problem.heads, head, problem.start + row));
    const auto* d =
        reinterpret_cast<const Vector*>(dout.Row(problem.heads, head, problem.start + row));
#pragma unroll
    for (int i = 0; i < (kVectors + ROW_LANES - 1) / ROW_LANES; ++i) {
      if (kVectors % ROW_LANES != 0 && i * ROW_LANES + thread >= kVectors) break;
      const Vector a = o[i * ROW_LANES + thread];
      const Vector b = d[i * ROW_LANES + thread];
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        sum += static_cast<float>(a.element[e]) * static_cast<float>(b.element[e]);
      }
    }
  }
#if ROW_LANES > 1
#pragma unroll
  for (int step = 1; step < ROW_LANES; step *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
#endif
  if (thread != 0 || head >= problem.batch * problem.heads) return;
  const long long at = FactIndex(problem, head, row);
  const float infinity = __int_as_float(0x7f800000);
  float log2 = infinity;
  const long long lse_at = static_cast<long long>(head) * problem.rows + problem.start + row;
  if (inside) log2 = lse[lse_at] * kLog2E;
  // A row that sees no key has minus infinity.
  facts[at] = kIsShifted && log2 == -infinity ? infinity : log2;
  facts[at + kFactRows] = sum;
}

#ifdef TUNE_CPU
constexpr int kSinkThreads = 16;
#else
constexpr int kSinkThreads = 256;
#endif

// The gradient of a head's sink, which takes weight from each row and has no value: a block sums
// the weights times minus delta, over all rows of all batches.
__device__ __forceinline__ void StoreSinkGradient(const Problem& problem, int head,
                                                  const float* __restrict__ sinks,
                                                  const float* __restrict__ facts,
                                                  float* __restrict__ dsinks) {
  __shared__ float sums[kSinkThreads];
  const float sink = sinks[head] * kLog2E;
  const int padded = FactBlocks(problem) * kFactRows;
  float sum = 0.0f;
  for (int batch = 0; batch < problem.batch; ++batch) {
    for (int row = threadIdx.x; row < padded; row += kSinkThreads) {
      const long long at = FactIndex(problem, batch * problem.heads + head, row);
      sum -= exp2f(sink - facts[at]) * facts[at + kFactRows];
    }
  }
  sums[threadIdx.x] = sum;
  for (int step = kSinkThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
  }
  if (threadIdx.x == 0) dsinks[head] = sums[0];
}
