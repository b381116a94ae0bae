// SPDX-License-Identifier: Apache-2.0
// The first step: of each row of Q, the sum of dO * O and the log-sum-exp in units of log2. Padding
// rows, and those that see no key, get what makes their weights zero.
#pragma once

#include "backward_problem.h"

constexpr int kFactThreads = 128;
constexpr int kVector = 8;  // elements of 16 bytes

struct alignas(16) Vector {
  Element element[kVector];
};

// ROW_LANES neighbouring threads share a row. `index` counts rows with the padding of each head.
__device__ __forceinline__ void StoreFacts(const Problem& problem, const View<const Element>& out,
                                           const View<const Element>& dout,
                                           const float* __restrict__ lse,
                                           float* __restrict__ facts) {
  const int thread = threadIdx.x % ROW_LANES;
  const int padded = FactBlocks(problem.seq) * kFactRows;
  const long long index =
      static_cast<long long>(blockIdx.x) * (kFactThreads / ROW_LANES) + threadIdx.x / ROW_LANES;
  const int head = static_cast<int>(index / padded);
  const int row = static_cast<int>(index % padded);
  const bool inside = head < problem.batch * problem.heads && row < problem.seq;
  float sum = 0.0f;
  if (inside) {
    const auto* o = reinterpret_cast<const Vector*>(out.Row(problem.heads, head, row));
    const auto* d = reinterpret_cast<const Vector*>(dout.Row(problem.heads, head, row));
#pragma unroll
    for (int i = 0; i < HEAD_DIM / kVector / ROW_LANES; ++i) {
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
  if (inside) log2 = lse[static_cast<long long>(head) * problem.seq + row] * kLog2E;
  // A row that sees no key has minus infinity.
  facts[at] = kIsShifted && log2 == -infinity ? infinity : log2;
  facts[at + kFactRows] = sum;
}
