// SPDX-License-Identifier: Apache-2.0
// The second step, where the first leaves several parts: merges them into O and LSE. A block has
// one row; the grid is [heads, QUERIES, batch].
#pragma once

#include "cache.h"
#include "overlap.cuh"

#if SPLIT > CLUSTER

extern "C" __global__ void attention_decode_combine(
    const float* split_out, const float* split_lse, Element* __restrict__ out,
    float* __restrict__ lse, long long out_batch_stride, long long out_query_stride,
    long long out_head_stride) {
  const int rows = gridDim.x * gridDim.y * gridDim.z;
  const int row = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const View<Element> rows_out = {out, out_batch_stride, out_query_stride, out_head_stride};
  Element* to = rows_out.Row(blockIdx.z, blockIdx.y, blockIdx.x);
  AwaitStepBefore();
  float max = kNone;
#pragma unroll
  for (int s = 0; s < kLeft; ++s) {
    max = fmaxf(max, split_lse[static_cast<long long>(s) * rows + row]);
  }
  for (int d = threadIdx.x; d < HEAD_DIM; d += blockDim.x) {
    float sum = 0.0f;
    float o = 0.0f;
#pragma unroll
    for (int s = 0; s < kLeft; ++s) {
      const long long at = static_cast<long long>(s) * rows + row;
      const float weight = Exp2(split_lse[at] - max);
      sum += weight;
      o += weight * split_out[at * HEAD_DIM + d];
    }
    to[d] = static_cast<Element>(o / sum);
    if (d == 0) lse[row] = (max + log2f(sum)) * kLn2;
  }
}

#endif
